"""Sessions with a scripted driver, of one run in the working directory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from fake_driver import FakeDriver

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.signals import Signals
from xagents_ray.run.prepare import find_run
from xagents_ray.run.session import run_session
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoints import all_checkpoints, step_of
from xagents_ray.watch.progress import Progress
from xagents_ray.watch.result import Result

RUN = Path("runs/ppo/CartPole-v1/a")
SETTINGS = {
    "env": "CartPole-v1",
    "max_steps": 1_000,
    "name": "a",
    "reward_buffer_size": 3,
    "seed": 1,
    "tensorboard": False,
}


def train(
    driver: FakeDriver, signals: Signals | None = None, **settings: Any
) -> Result:
    """Train `agent`, ppo, with a scripted driver; resume where settings say so."""
    agent = settings.pop("agent", "ppo")
    watch: Callable[[Progress], None] | None = settings.pop("watch", None)
    callbacks = settings.pop("callbacks", ())
    resumed, given = None, {**SETTINGS, **settings}
    if "resume" in settings:
        resumed, given = find_run(agent, settings)
    config = Config.of(find_algorithm(agent).config, given)
    start = lambda run, signals, note: driver  # noqa: E731
    facts = find_algorithm(agent), config, signals or Signals(), start, resumed, watch
    return run_session(*facts, listeners=callbacks)


def steps() -> list[int]:
    return [step_of(path) for path in all_checkpoints(RUN / "checkpoints")]


def summary() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RUN / "summary.json").read_text())
    return found


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def round_() -> NoReturn:
        raise error

    return round_
