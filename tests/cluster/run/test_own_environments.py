"""What a notebook registers or defines is trained on Ray as it is with --local."""

import os
from pathlib import Path

from processes import python

OWN = Path(__file__).parents[2] / "support" / "own_environments.py"

_TRAIN = """
import xagents_ray
where = {"address": "ADDRESS", "n_envs": 4, "n_actors": 2, "quiet": True}
made = xagents_ray.train(
    "ppo", env="own/Vector-v0", max_steps=2_000, eval_every=1_000, eval_episodes=2,
    **where,
)
print(made.games > 0, made.best_evaluation is not None, made.failures)
swept = xagents_ray.tune(
    "ppo", env="__main__:factory", trial_steps=1_000, n_trials=1, lr=[1e-4, 1e-3],
    **where,
)
print(swept.counts)

import ray
from examples import complaints, examples_of
ray.init("ADDRESS", log_to_driver=False, logging_level="ERROR")
for name in ("tune", "TuneResult"):
    for example in examples_of(getattr(xagents_ray, name), name).values():
        print(complaints(example, {"xagents_ray": xagents_ray}) or f"{name} runs")
"""


def test_what_main_holds_is_trained_evaluated_and_tuned(cluster: str) -> None:
    """Env actors, the evaluator and a trial know nothing of this `__main__`.

    The examples of `tune` run here too, where there is a Ray.
    """
    source = OWN.read_text() + _TRAIN.replace("ADDRESS", cluster)
    environment = {**os.environ, "PYTHONPATH": str(OWN.parent)}
    done = python("-", input=source, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True True {}",
        "{'complete': 1}",
        "tune runs",
        "TuneResult runs",
    ]
