"""Every public name has an example in its docstring, and the examples run."""

import inspect
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import xagents_ray
from examples import complaints, examples_of

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
