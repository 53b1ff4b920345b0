"""What AutoGraph makes of the algorithms, for a fork server to import beforehand.

A process that is forked from it then traces its learning phase in a third of the time.
"""

import gc
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import FunctionType, ModuleType

from tensorflow.python.autograph.core.converter import (
    ConversionOptions,
    ProgramContext,
)
from tensorflow.python.autograph.impl import api, conversion

from xagents_ray import learners
from xagents_ray.learners import math

_OPTIONS = ConversionOptions(recursive=True, optional_features=None)
"""Of what a `tf.function` calls."""


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield a module's own functions, and its classes' own methods."""
    for found in vars(module).values():
        if getattr(found, "__module__", None) == module.__name__:
            held = vars(found).values() if inspect.isclass(found) else [found]
            yield from filter(inspect.isfunction, held)


for package in (learners, math):
    for _, name, is_package in pkgutil.iter_modules(package.__path__):
        if is_package:
            continue
        for function in _functions(import_module(f"{package.__name__}.{name}")):
            is_called = not function.__name__.startswith("__")
            if is_called and not conversion.is_allowlisted(function):
                with suppress(Exception):  # what no graph calls need not be convertible
                    api._convert_actual(function, ProgramContext(_OPTIONS))
gc.freeze()
