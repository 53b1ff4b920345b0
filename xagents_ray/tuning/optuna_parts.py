"""What a study is made of: its database, pruner and distributions."""

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from xagents_ray.core.errors import UserError
from xagents_ray.tuning.config import TuneConfig
from xagents_ray.tuning.space import Space

_REDUCTION = 3
"""Successive halving keeps one trial of so many."""


def open_study(name: str, url: str) -> optuna.Study:
    """Return a study in a database, new or not; UserError when it can't be opened."""
    try:
        return optuna.create_study(
            study_name=name, storage=url, direction="maximize", load_if_exists=True
        )
    except ImportError as error:
        cause = error.__cause__ or error
        missing = cause.name if isinstance(cause, ImportError) else None
        raise UserError(
            f"--storage {without_password(url)} needs the package "
            f"{missing or 'of its driver'}: install it beside xagents-ray."
        ) from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise UserError(
            f"--storage {without_password(url)} can't be opened "
            f"({first_line(error)}): give a URL such as sqlite:///study.db or "
            "postgresql://user:password@host/name."
        ) from None


def make_pruner(
    config: TuneConfig, points: tuple[int, ...]
) -> optuna.pruners.BasePruner:
    """Return what ends bad trials early, by --scheduler."""
    if config.scheduler == "median":
        steps = config.warmup_steps
        return optuna.pruners.MedianPruner(
            n_startup_trials=config.warmup_trials,
            n_warmup_steps=config.trial_steps // 10 if steps is None else steps,
        )
    if config.scheduler == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=points[0], reduction_factor=_REDUCTION
        )
    return optuna.pruners.NopPruner()


def distribution_of(space: Space) -> BaseDistribution:
    """Return a space as Optuna has it."""
    if space.kind == "categorical":
        return CategoricalDistribution(space.values)
    low, high = space.values
    if space.kind == "int":
        return IntDistribution(low, high)
    return FloatDistribution(low, high, log=True)


def are_compatible(before: BaseDistribution, now: BaseDistribution) -> bool:
    """Return whether a study may vary a setting over both."""
    try:
        check_distribution_compatibility(before, now)
    except ValueError:
        return False
    return True


def described(distribution: BaseDistribution) -> str:
    """Return the values of a distribution in words."""
    if isinstance(distribution, CategoricalDistribution):
        return " ".join(map(str, distribution.choices))
    assert isinstance(distribution, IntDistribution | FloatDistribution)
    return f"{distribution.low} to {distribution.high}"


def without_password(url: str) -> str:
    """Return a database URL to show."""
    try:
        return make_url(url).render_as_string()
    except SQLAlchemyError:
        return url


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or of its cause's."""
    cause = error.__cause__ or error
    return str(cause).strip().splitlines()[0].rstrip(".")
