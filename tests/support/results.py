"""Results of runs that were not made."""

from xagents_ray.watch.result import Result


def result(mean: float | None, signal: int | None = None) -> Result:
    """Return that of a run that took 10 env steps, with a mean reward."""
    counts = {"env_steps": 10, "games": 1, "updates": 1, "dropped": 0, "seed": 1}
    numbers = {"seconds": 1.0, "steps_per_second": 10.0, "mean_reward": mean}
    return Result(
        reason="Over",
        best_reward=None,
        episodes=(),
        directory="",
        signal=signal,
        **counts,  # type: ignore[arg-type]
        **numbers,  # type: ignore[arg-type]
    )
