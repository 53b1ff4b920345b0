"""Detects the installed package: xagents-ray, or only xagents-ray-actor."""

import importlib.util

from xagents_ray.core.errors import UserError


def is_complete() -> bool:
    """Return whether TensorFlow is installed, without importing it."""
    return importlib.util.find_spec("tensorflow") is not None


def check_complete(what: str) -> None:
    """Raise UserError if TensorFlow, which `what` requires, is missing."""
    if not is_complete():
        raise UserError(
            f"{what} needs TensorFlow, which xagents-ray-actor leaves out: pip install "
            "xagents-ray."
        )


def missing_package(package: str) -> str:
    """Return the message for another package that xagents-ray-actor leaves out."""
    return (
        f"{package} isn't installed, as xagents-ray-actor leaves it out: pip install "
        "xagents-ray."
    )
