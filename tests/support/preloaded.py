"""All algorithms, for a fork server to import beforehand."""

import gc
import pkgutil
from importlib import import_module

from xagents_ray import learners

for _, name, _ in pkgutil.iter_modules(learners.__path__):
    import_module(f"{learners.__name__}.{name}")
gc.freeze()
