"""Which package is installed here: xagents-ray, or xagents-ray-actor to act only."""

import importlib.util

from xagents_ray.core.errors import UserError


def is_complete() -> bool:
    """Return whether TensorFlow is installed here, without importing it."""
    return importlib.util.find_spec("tensorflow") is not None


def check_complete(what: str) -> None:
    """Raise UserError if `what` can't be done because TensorFlow is missing."""
    if not is_complete():
        raise UserError(
            f"{what} needs TensorFlow, which xagents-ray-actor leaves out: pip install "
            "xagents-ray."
        )


def missing_package(package: str) -> str:
    """Return a sentence on another package that is missing for the same reason."""
    return (
        f"{package} isn't installed, as xagents-ray-actor leaves it out: pip install "
        "xagents-ray."
    )
