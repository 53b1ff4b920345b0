"""When the learning rate is reduced, and when training stops early."""

import pytest

from xagents_ray.run.run_state import Plateau
from xagents_ray.settings.training import TrainingConfig


def checks(config: TrainingConfig, *means: float, plateau: Plateau) -> list[str | None]:
    return [plateau.check(config, 100, mean) for mean in means]


def config(**settings: int) -> TrainingConfig:
    return TrainingConfig(
        divergence_monitoring_steps=100,
        plateau_reduce_patience=2,
        early_stop_patience=2,
        **settings,
    )


def test_the_first_check_is_not_a_miss() -> None:
    plateau = Plateau()
    assert checks(config(), 1.0, plateau=plateau) == [None]
    assert plateau.misses == 0


def test_patience_misses_reduce_and_reduces_stop() -> None:
    means = [1.0, 1.0, 0.5, 0.9, 1.0]
    due = checks(config(), *means, plateau=Plateau())
    assert due == [None, None, "reduce", None, "stop"]


def test_an_improvement_starts_over() -> None:
    means = [1.0, 1.0, 1.1, 1.0, 1.0, 1.2, 1.0, 1.0, 1.0, 1.0]
    due = checks(config(), *means, plateau=Plateau())
    expected = [None] * 4 + ["reduce", None, None, "reduce", None, "stop"]
    assert due == expected


@pytest.mark.parametrize("steps", [None, 101])
def test_nothing_happens_before_monitoring_begins(steps: int | None) -> None:
    settings = TrainingConfig(
        divergence_monitoring_steps=steps, plateau_reduce_patience=1
    )
    due = checks(settings, *[1.0] * 20, plateau=Plateau())
    assert due == [None] * 20


def test_it_continues_from_its_state() -> None:
    one, other = Plateau(), Plateau()
    checks(config(), 1.0, 1.0, plateau=one)
    other.restore(one.state())
    assert checks(config(), 1.0, plateau=other) == ["reduce"]
