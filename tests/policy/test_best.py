"""Which weights are the best: over a full window, or by greedy evaluations."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from naive import random_arrays

from xagents_ray.algorithms.table import find
from xagents_ray.commands.evaluate import evaluate_with
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Episode, RolloutReport
from xagents_ray.policy.loading import load as load_trained
from xagents_ray.run.checkpointing import Saver
from xagents_ray.run.driver import Run, Snapshot
from xagents_ray.run.prepare import prepare
from xagents_ray.run.progress import Progress
from xagents_ray.run.recorder import Attempts
from xagents_ray.settings.config import Config
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best,
    best_evaluation,
    load,
    replay_files,
    step_of,
)
from xagents_ray.storage.files import MANIFEST
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import WeightsFile

PPO = {"env": "CartPole-v1", "max_steps": 10_000, "run_dir": "runs", "name": "a"}


def finish_episodes(progress: Progress, config: Config, *returns: float) -> list[Any]:
    """Let one episode end per env step; return what the history gets."""
    episodes = tuple(Episode(0, row, r, 1) for row, r in enumerate(returns))
    report = RolloutReport(np.ones(len(returns), np.int64), episodes, 0.0)
    return progress.collected([report], config.training)[0]


def config_of(**settings: Any) -> Config:
    return Config.of(find("ppo").config, {**PPO, "reward_buffer_size": 3, **settings})


# Progress and history


def test_the_best_mean_is_of_a_full_window() -> None:
    progress, config = Progress(deque(maxlen=3)), config_of()
    rows = finish_episodes(progress, config, 500, 20, 20, 50, 5)
    assert [row.mean_reward for row in rows] == [500, 260, 180, 30, 25]
    assert [row.best_reward for row in rows] == [None, None, 180, 180, 180]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_checkpoint_of_an_earlier_version_has_no_best_mean(is_old: bool) -> None:
    progress, resumed = Progress(deque(maxlen=3)), Progress(deque(maxlen=3))
    finish_episodes(progress, config_of(), 500, 20, 20, 50)
    state = json.loads(json.dumps(progress.state()))
    if is_old:
        del state["best_window"]
        state["best_reward"] = 500.0  # the first episode's
    resumed.restore(state)
    assert resumed.best_reward == (None if is_old else 180)


def test_a_continued_history_knows_its_best_full_window(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    history = History(path)
    assert history.best_mean(3) is None
    for step, mean in enumerate([500, 260, 180, 30, 25]):
        # Written by an earlier version, which let the first episode be the best.
        history.add(step, step, 0.0, mean, 500.0)
    history.flush()
    again = History(path)
    assert again.best_mean(3) == 180
    assert again.best_mean(6) is None
    again.add(9, 9, 0.0, 40.0, None)
    assert again.last is not None and np.isnan(again.last.best_reward)


# What is written


class Parts:
    """A driver whose learner's state is a number that grows."""

    replay_nbytes = 0

    def __init__(self) -> None:
        self.number = 0.0

    def snapshot(self) -> Snapshot:
        return Snapshot({"number": np.array(self.number)}, [])

    def fetch(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def encode(self, snapshot: Snapshot, paths: Any) -> list[WeightsFile]:
        text = str(snapshot.learner["number"].item())
        return [WeightsFile(path, {"": text.encode()}) for path in paths]

    def save_replay(self, directory: Path) -> None:
        write_arrays(directory / "replay.npz", {"a": np.zeros(1)})


class Session:
    """A run whose states are numbered by their env steps."""

    def __init__(self, start: int = 0, **settings: Any) -> None:
        settings = {"checkpoints": ("best.npz",), **settings}
        self.config, self.parts = config_of(**settings), Parts()
        self.progress = Progress(deque(maxlen=3), env_steps=start)
        self.directory = RunDirectory(Path("run"))
        unused: Any = None
        run = Run(find("ppo"), self.config, unused, unused, seed=1)
        driver: Any = self.parts
        self.warnings: list[str] = []
        self.saver = Saver(
            run,
            driver,
            self.directory,
            lambda: {"progress": self.progress.state()},
            Attempts(self.warnings.append),
            lambda: None,
            lambda: None,
            self.progress,
        )

    def act(self, *returns: float) -> None:
        """Let episodes of one step each end, and a learning phase after them."""
        finish_episodes(self.progress, self.config, *returns)
        self.parts.number = float(self.progress.env_steps)
        self.saver.between_phases()

    @property
    def steps(self) -> list[int]:
        return [step_of(p) for p in all_checkpoints(self.directory.checkpoints)]

    @property
    def best(self) -> tuple[int, float | None]:
        path = best(self.directory.checkpoints)
        assert path is not None
        assert load(path).arrays["number"] == step_of(path)
        return step_of(path), best_evaluation(path)


def test_a_lucky_first_episode_is_not_the_best() -> None:
    session = Session()
    session.act(500)
    session.act(20, 20)  # the window is full: mean 180
    session.act(1)
    session.act(600)  # mean 207
    session.act(1, 1)
    session.saver.at_the_end(with_replay=False)
    assert session.saver.finish() is None
    assert session.best == (5, None)
    assert Path("best.npz").read_text() == "5.0"
    assert session.steps == [7, 5]


def test_where_there_are_evaluations_they_decide() -> None:
    session = Session(eval_every=1)
    for returns, mean in (([1] * 3, 40.0), ([500] * 3, 20.0), ([1], 40.0), ([1], 60.0)):
        session.act(*returns)
        session.saver.begin_evaluation()
        session.saver.end_evaluation(session.progress.env_steps, mean)
    session.act(1)
    session.saver.at_the_end(with_replay=False)
    assert session.saver.finish() is None
    assert session.progress.best_reward == 500
    assert session.best == (8, 60.0)
    assert Path("best.npz").read_text() == "8.0"


def test_an_evaluation_that_ends_late_leaves_the_newer_checkpoints() -> None:
    """On Ray training goes on meanwhile, and checkpoints are written."""
    session = Session(eval_every=1, checkpoint_every=3, checkpoint_replay=True)
    session.act(*[1] * 3)
    session.saver.begin_evaluation()
    session.act(*[1] * 2)
    session.saver.begin_evaluation()
    session.act(1)
    assert session.steps == [6, 3]
    session.saver.end_evaluation(5, 10.0)  # that of step 3 has failed
    session.saver.end_evaluation(3, 99.0)
    session.act(1)
    session.saver.begin_evaluation()
    session.saver.at_the_end(with_replay=True)
    assert (session.steps, session.best) == ([7, 6, 5], (5, 10.0))
    newest = all_checkpoints(session.directory.checkpoints)[0]
    assert replay_files(newest) != []
    session.saver.end_evaluation(7, 11.0)  # of the newest, which keeps its replay
    session.saver.finish()
    assert (session.steps[0], session.best) == (7, (7, 11.0))
    assert replay_files(newest) != []


def test_a_resumed_run_knows_its_best_evaluation() -> None:
    session = Session(eval_every=1)
    session.act(1, 1)
    session.saver.begin_evaluation()
    session.saver.end_evaluation(2, 60.0)
    session.saver.finish()
    assert Session(eval_every=1, start=1).progress.best_evaluation is None
    resumed = Session(eval_every=1, start=2)
    for mean, expected in ((50.0, (2, 60.0)), (70.0, (4, 70.0))):
        resumed.act(1)
        resumed.saver.begin_evaluation()
        resumed.saver.end_evaluation(resumed.progress.env_steps, mean)
        resumed.saver.finish()
        assert resumed.best == expected


def test_without_a_best_the_final_weights_are_written() -> None:
    for settings, words in (
        ({}, "fewer than 3 episodes"),
        ({"eval_every": 100}, "no evaluation ended"),
    ):
        session = Session(**settings)
        session.act(500, 500)
        assert not Path("best.npz").exists()
        session.saver.at_the_end(with_replay=False)
        note = session.saver.finish()
        assert note is not None and words in note
        assert Path("best.npz").read_text() == "2.0"
        assert session.warnings == []
        Path("best.npz").unlink()


# What is taken


def run_of(*marks: tuple[int, bool, float | None]) -> tuple[str, dict[int, str]]:
    """Write a run with checkpoints (step, is_best, evaluation); return their paths."""
    config = config_of()
    run = prepare(find("ppo"), config)
    directory = RunDirectory.create(config, "ppo", 1)
    directory.begin(config, "ppo", 1)
    writer = CheckpointWriter(directory.checkpoints, 9)
    arrays = random_arrays(run.layout, 3)
    paths = {}
    for step, is_best, evaluation in marks:
        named = {f"policy/{name}": array for name, array in arrays.items()}
        path = writer.write(step, named, {}, is_best=is_best, evaluation=evaluation)
        paths[step] = str(path)
    return str(directory.path), paths


MEAN = [(100, False, None), (200, True, None), (300, False, None)]
EVALUATED = [(100, False, None), (200, True, 87.5), (300, False, None)]
BEST = "the best mean reward in training"
NEWEST = "the newest checkpoint"


@pytest.mark.parametrize(
    ("marks", "which", "step", "reason"),
    [
        (MEAN, None, 300, f"{NEWEST}; no evaluation ranked them, see --eval-every"),
        (MEAN, "best", 200, BEST),
        (MEAN, "last", 300, NEWEST),
        (EVALUATED, None, 200, "the best evaluation, mean reward 87.50"),
        (EVALUATED, "best", 200, "the best evaluation, mean reward 87.50"),
        (EVALUATED, "last", 300, NEWEST),
        (EVALUATED, "100", 100, "chosen by --which"),
    ],
)
def test_which_checkpoint_is_taken(
    marks: Any, which: str | None, step: int, reason: str
) -> None:
    run, paths = run_of(*marks)
    given = {"run": run} | ({"which": which} if which else {})
    assert load_trained(find("ppo"), given).notes == [
        f"Weights of {paths[step]}: {reason}"
    ]


def test_a_run_of_an_earlier_version_is_taken() -> None:
    """Its manifests know of no evaluations."""
    run, paths = run_of(*MEAN)
    for path in paths.values():
        file = Path(path, MANIFEST)
        manifest = json.loads(file.read_text())
        del manifest["evaluation"]
        file.write_text(json.dumps(manifest))
    for which, step in ((None, 300), ("best", 200), ("100", 100)):
        given = {"run": run} | ({"which": which} if which else {})
        (note,) = load_trained(find("ppo"), given).notes
        assert paths[step] in note


def test_the_json_of_evaluate_says_which_was_taken() -> None:
    run, paths = run_of(*EVALUATED)
    said: list[str] = []
    given = {"run": run, "episodes": 1, "json": True}
    assert evaluate_with(find("ppo"), given, said.append) is None
    (text,) = said
    assert paths[200] in json.loads(text)["notes"][0]


def test_which_that_is_wrong() -> None:
    run, paths = run_of((100, False, None), (200, False, None))
    for given, words in (
        ({"which": "first"}, "--which takes best, last or an env step, got 'first'"),
        ({"which": "150"}, "checkpoints of env steps 100, 200; name one of them"),
        ({"which": "best"}, "has no best checkpoint yet: use --which last"),
        ({"which": "last", "run": paths[100]}, "--run names one already"),
        ({"which": "last", "run": None, "weights": ("a.tf",)}, "of --run: leave it"),
    ):
        with pytest.raises(UserError, match=words):
            load_trained(find("ppo"), {"run": run, **given})
    assert load_trained(find("ppo"), {"run": paths[100]}).notes == [
        f"Weights of {paths[100]}: named by --run"
    ]
