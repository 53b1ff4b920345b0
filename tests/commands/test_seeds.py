"""Runs with several seeds as a user makes them."""

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import forked
import pytest
from fake_driver import FakeDriver
from sessions import RUN, raising, summary, train

import xagents_ray
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.seeds import _definitions, _ended, _settings
from xagents_ray.core import objects
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import layout
from xagents_ray.run import learner_access
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config
from xagents_ray.storage.lock import locked_directory

_TRAIN = """
import json, os, xagents_ray
from examples import complaints, examples_of

class Unlucky(xagents_ray.Callback):
    def on_rollout(self, ctx):
        is_unlucky = ctx.directory.name == "seed-2" and not os.path.exists("fixed")
        if is_unlucky and ctx.env_steps > 300:
            raise ValueError("unlucky")

run = {"env": "CartPole-v1", "n_envs": 4, "n_steps": 64, "local": True, "quiet": True}
run |= {"max_steps": 1_000, "name": "a", "jit": "off"}
found = []
for _ in range(2):
    result = xagents_ray.train("ppo", seeds=[2, 3], callbacks=[Unlucky()], **run)
    means = {seed: each.mean_reward for seed, each in result.results.items()}
    found.append([means, result.failures, result.mean])
    open("fixed", "w").close()
alone = xagents_ray.train("ppo", seed=3, **run)
examples = [
    examples_of(getattr(xagents_ray, name), name)[name]
    for name in ("SeedsResult", "plot_seeds")
]
said = [complaints(each, {"xagents_ray": xagents_ray}) for each in examples]
print(json.dumps([*found, alone.mean_reward, said]))
"""


def test_a_run_that_fails_is_resumed_by_the_same_command() -> None:
    done = forked.run(["-c", _TRAIN], 200)
    assert done.returncode == 0, done.stderr
    first, second, alone, said = json.loads(done.stdout)
    assert [*first[0]] == ["3"] and [*second[0]] == ["2", "3"]
    assert first[0]["3"] == second[0]["3"] == alone  # as with --seed 3 alone
    assert said == ["", ""]
    message = first[1]["2"]
    assert "Unlucky.on_rollout: ValueError: unlucky (<string>, line 9)" in message
    assert second[1] == {} and second[2] == sum(second[0].values()) / 2
    above = Path("runs/seeds/a")
    assert {path.name for path in above.iterdir()} == {
        ".lock",
        "ppo",
        "seed-2.log",
        "seed-3.log",
        "seeds.png",
        "summary.json",
    }
    starts = above / "ppo" / "CartPole-v1" / "seed-2" / "run.json"
    assert len(json.loads(starts.read_text())) == 2
    assert json.loads((above / "summary.json").read_text())["mean"] == second[2]
    figure = xagents_ray.plot_seeds(above)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["interquartile mean of 2 seeds"]


def test_one_process_at_a_time_trains_a_directory_of_seeds() -> None:
    directory = Path("runs/seeds/a").resolve()
    directory.mkdir(parents=True)
    given = {"env": "CartPole-v1", "max_steps": 9, "local": True, "name": "a"}
    held = f"{directory} is being trained by process {os.getpid()} on .*: end it first"
    with locked_directory(directory), pytest.raises(UserError, match=held):
        xagents_ray.train("ppo", seeds=[1, 2], quiet=True, **given)
    assert [path.name for path in directory.iterdir()] == [".lock"]


def test_the_same_command_leaves_runs_alone_that_are_trained() -> None:
    """Also before their first checkpoint, and it may name their network again."""
    above = Path("runs/seeds/a")
    own = {"run_dir": str(above), "name": "seed-2", "seed": 2}
    found = above / "ppo/CartPole-v1/seed-2"
    network = Path(layout.__file__).with_name("actor-critic-vector.cfg")
    Path("my.cfg").write_bytes(network.read_bytes())
    given = {"env": "CartPole-v1", "max_steps": 2, "model": "my.cfg", "name": "a"}

    def again() -> list[float]:
        with pytest.raises(UserError, match="seed-2 is being trained by process"):
            _settings(find_algorithm("ppo"), {**given, "seeds": (2,)}, above, 2)
        return [1]

    found.mkdir(parents=True)
    with locked_directory(found):
        again()
    assert found.exists()
    assert _settings(find_algorithm("ppo"), given, above, 2) == {**given, **own}
    assert not found.exists()
    train(FakeDriver([[1], again]), **{**given, **own})
    resumed = _settings(find_algorithm("ppo"), {**given, "seeds": (2,)}, above, 2)
    assert resumed["resume"] == str(found) and "name" not in resumed


def test_a_run_that_is_over_is_only_read() -> None:
    """Where a target was reached, later episodes of its round may be worse."""
    end = {"target_reward": 5, "max_steps": 100}
    driver = FakeDriver([[1, 9, 9], [1]])
    result = train(driver, checkpoint_every=1, reward_buffer_size=2, **end)
    assert result.reason == "Reward achieved in 2 steps" and result.completed
    over = _ended(end, str(RUN))
    assert over is not None and over == replace(result, episodes=())
    assert _ended({**end, "target_reward": 10}, str(RUN)) is None
    assert _ended(end, None) is None


@pytest.mark.parametrize("error", [Broken("No env actor is left."), Stopped()])
def test_a_run_that_was_ended_is_trained_on(error: Exception) -> None:
    driver, signals = FakeDriver([[1], raising(error)]), Signals()
    if isinstance(error, Stopped):
        signals.received = signal.SIGTERM
    with suppress(Broken):
        train(driver, signals)
    assert summary()["reason"] and _ended({}, str(RUN)) is None


def test_runs_are_sent_what_their_networks_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody uses may be what can't be sent."""
    kept: dict[tuple[str, str], Any] = {("initializer", "own"): print}
    monkeypatch.setattr(objects, "_kept", kept)
    row, text = find_algorithm("dqn"), "[dense-0]\noutput=1\ninitializer="

    def sent(initializer: str) -> tuple[bytes, ...]:
        kept["initializer", "odd"] = Lock().acquire
        Path("own.cfg").write_text(text + initializer)
        config = Config.of(row.config, {"env": "CartPole-v1", "model": "own.cfg"})
        return _definitions(build_run(row, config, EnvSpec((4,), "float32", 1, 2)))

    steps: list[str] = []
    monkeypatch.setattr(
        learner_access, "load_tensorflow", lambda: steps.append("TensorFlow")
    )
    monkeypatch.setattr(
        objects, "install_definitions", lambda _: steps.append("what may import Keras")
    )
    _, own, *_ = definitions = sent("own")
    learner_access.install_parts(definitions)
    assert steps == ["TensorFlow", "what may import Keras"]
    kept.clear()
    objects.install_objects(own)
    assert kept == {("initializer", "own"): print}
    with pytest.raises(UserError, match="initializer 'odd' can't be sent to other"):
        sent("odd")
