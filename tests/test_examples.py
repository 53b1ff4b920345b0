"""Every public name has an example in its docstring, and the examples run."""

import inspect
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xagents_ray
from examples import complaints, examples_of
from xagents_ray.algorithms.table import ALGORITHMS, all_algorithms
from xagents_ray.core import objects
from xagents_ray.networks.kinds import known_kinds

ELSEWHERE = {"tune", "TuneResult", "SeedsResult", "plot_seeds"}
"""They take long, so they run in other programs: `test_own_code.py` has a Ray,
`test_seeds.py` runs with several seeds."""


def public() -> dict[str, Any]:
    """Return classes and functions by name, `train` first: others read its run."""
    found = {name: getattr(xagents_ray, name) for name in xagents_ray.__all__}
    kept = {
        k: v for k, v in found.items() if inspect.isroutine(v) or isinstance(v, type)
    }
    return {"train": kept.pop("train"), **kept}


def members(found: Any, name: str) -> Iterator[str]:
    """Yield a name, and of a policy also its methods and properties."""
    yield name
    if found is xagents_ray.Policy:
        for each in vars(found):
            is_public = not each.startswith("_")
            if is_public:
                yield f"{name}.{each}"


def test_every_public_name_has_an_example() -> None:
    names = public()
    assert len(names) > 15
    for name, found in names.items():
        assert set(members(found, name)) <= examples_of(found, name).keys()


@pytest.fixture
def registries() -> Iterator[None]:
    """Remove the algorithms, layers and classes that examples register here."""
    all_algorithms(), known_kinds()  # those of plugins stay
    found: list[dict[Any, Any]] = [ALGORITHMS, objects._kept]
    before = [dict(each) for each in found]
    yield
    for registry, content in zip(found, before, strict=True):
        registry.clear()
        registry.update(content)


@pytest.mark.usefixtures("registries")
def test_the_examples_run() -> None:
    """In one process and one folder, as a reader would try them in turn."""
    namespace = {"xagents_ray": xagents_ray, "np": np, "pathlib": pathlib}
    failed = [
        complaints(test, namespace)
        for name, found in public().items()
        for test in examples_of(found, name).values()
        if name not in ELSEWHERE
    ]
    assert len(failed) > 25
    assert not any(failed), "\n".join(failed)


def test_the_examples_leave_no_algorithm_or_layer() -> None:
    """`register` and `register_layer` have examples; other tests list all of them."""
    assert not any(name.startswith("my-") for name in ALGORITHMS)
    assert ("layer", "identity") not in objects._kept
