"""Which states of a run are written, and which one is the best."""

import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_driver import FakeDriver, learned_in, report

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.reports import Evaluated, FailedEvaluation
from xagents_ray.policy.card import read_card
from xagents_ray.run.checkpointing import CheckpointPolicy
from xagents_ray.run.driver import Snapshot
from xagents_ray.run.run_state import RunState
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best_checkpoint,
    best_evaluation,
    load_checkpoint,
    replay_files,
    step_of,
)
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.callbacks import Callbacks, RunContext
from xagents_ray.watch.recorder import BestEffort, Recorder

PPO = {"env": "CartPole-v1", "max_steps": 10_000, "reward_buffer_size": 3}


class Saved:
    """A run whose learner has learned as many phases as there were env steps."""

    def __init__(self, start: int = 0, **settings: Any) -> None:
        settings = {**PPO, "checkpoints": ("best.npz",), **settings}
        self.config = Config.of(find_algorithm("ppo").config, settings)
        self.driver, unused = FakeDriver(), Any
        run = RunSpec(find_algorithm("ppo"), self.config, unused, unused, seed=1)  # type: ignore
        self.state = RunState(run)
        self.progress = self.state.progress
        self.progress.env_steps = start
        self.directory = RunDirectory(Path("run"))
        self.warnings: list[str] = []
        best_effort = BestEffort(self.warnings.append)
        recorder = Recorder("ppo", run.config, self.directory, [], best_effort, 0)
        context = RunContext(self.progress, self.directory.path, recorder.own)
        called = Callbacks([], context)
        facts = run, self.driver, self.directory, self.state
        self.saver = CheckpointPolicy(*facts, recorder, called)

    def act(self, *returns: float) -> None:
        """Let episodes of one step each end, and a learning phase after them."""
        self.progress.collected([report(*returns)], self.config.training)
        self.driver.learned = self.progress.env_steps
        self.saver.between_phases()

    def end(self, with_replay: bool = False) -> None:
        """Write what is not written yet."""
        self.saver.write_best()
        if self.saver.is_behind:
            self.saver.write_newest(with_replay)

    def evaluate(self, mean: float) -> None:
        """Evaluate the newest weights."""
        self.saver.begin_evaluation()
        self.saver.end_evaluation(Evaluated(self.progress.env_steps, mean))

    def actors(self, step: int) -> list[list[int]]:
        """Return what a checkpoint holds of each env actor: the phases so far."""
        paths = all_checkpoints(self.directory.checkpoints)
        path = next(path for path in paths if step_of(path) == step)
        return [state["noise"] for state in load_checkpoint(path).facts["actors"]]

    @property
    def steps(self) -> list[int]:
        return [step_of(p) for p in all_checkpoints(self.directory.checkpoints)]

    @property
    def best(self) -> tuple[int, float | None]:
        path = best_checkpoint(self.directory.checkpoints)
        assert path is not None
        assert load_checkpoint(path).arrays["learned"] == step_of(path)
        return step_of(path), best_evaluation(path)


def test_a_lucky_first_episode_is_not_the_best() -> None:
    run = Saved()
    run.act(500)
    run.act(20, 20)  # the window is full: mean 180
    run.act(1)
    run.act(600)  # mean 207
    run.act(1, 1)
    run.end()
    assert run.saver.finish() is None
    assert run.best == (5, None)
    assert learned_in("best.npz") == 5
    assert run.steps == [7, 5]


def test_models_say_what_they_are_of() -> None:
    """As of the states that they are of, and not of the end of the run."""
    run = Saved(checkpoints=("best.npz", "critic.npz"))
    run.act(500, 400, 300)
    run.act(1)
    run.end()
    card = read_card("best.npz")
    assert card is not None and card.agent == "ppo"
    assert card.settings["env"] == "CartPole-v1"
    facts = {"env_steps": 3, "seed": 1, "mean_reward": 400.0, "best_reward": 400.0}
    assert card.facts.items() >= facts.items()
    assert read_card("critic.npz") is None


def test_where_there_are_evaluations_they_decide() -> None:
    run = Saved(eval_every=1)
    for returns, mean in (([1] * 3, 40.0), ([500] * 3, 20.0), ([1], 40.0), ([1], 60.0)):
        run.act(*returns)
        run.evaluate(mean)
    run.act(1)
    run.end()
    assert run.saver.finish() is None
    assert run.progress.best_reward == 500
    assert run.best == (8, 60.0)
    assert learned_in("best.npz") == 8


def test_of_equal_evaluations_the_first_one_is_the_best() -> None:
    run = Saved(eval_every=1)
    for _ in range(2):
        run.act(1)
        run.evaluate(40.0)
    run.end()
    assert run.best == (1, 40.0)


@pytest.mark.parametrize("error", [Stopped(), Broken("Ray is lost.")])
def test_a_best_state_that_does_not_arrive_is_unsaved(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest one is still written."""
    run = Saved()
    run.act(500, 400, 300)

    def fetch(snapshot: Snapshot) -> Snapshot:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(run.driver, "fetch", fetch)
        run.end()
    assert run.saver.unsaved == ["the best state (3 env steps)"]
    assert run.steps == [3] and best_checkpoint(run.directory.checkpoints) is None
    run.end()
    assert run.saver.unsaved == [] and run.best == (3, None)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of the checkpoints, as a list of one number."""
    seconds = [100.0]
    clock = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr("xagents_ray.run.checkpointing.time", clock)
    return seconds


def test_a_new_best_is_written_ten_seconds_after_the_last_one(now: list[float]) -> None:
    run = Saved()
    run.act(1, 1, 1)
    now[0] += 9.9
    run.act(2)
    assert run.steps == []
    now[0] += 0.2
    run.act(3)
    assert run.steps == [5]
    now[0] += 9.9
    run.act(4)
    assert run.steps == [5]


def test_a_best_that_waited_is_followed_by_a_checkpoint_that_continues(
    now: list[float],
) -> None:
    """Env actors are asked for their states only where these are written."""
    run = Saved()
    run.act(1, 1, 1)
    assert run.driver.asked == 0
    now[0] += 11
    run.act(0)
    assert (run.steps, run.best) == ([4, 3], (3, None))
    assert (run.actors(4), run.actors(3)) == ([[4]], [])
    now[0] += 11
    run.act(9)  # a new best that is written at once
    assert (run.steps, run.best) == ([5, 4, 3], (5, None))
    assert run.actors(5) == [[5]]
    now[0] += 11
    run.act(0)
    assert run.steps[0] == 5  # no best waits
    assert run.driver.asked == 2


def test_without_states_to_save_a_best_is_written_alone(now: list[float]) -> None:
    """With rollouts ahead, no checkpoint has the states of env actors."""
    run = Saved(policy_lag=1)
    run.act(1, 1, 1)
    now[0] += 11
    run.act(0)
    assert run.steps == [3]


def test_a_best_of_the_last_step_leaves_a_checkpoint_that_continues() -> None:
    run = Saved()
    run.act(1, 1, 1)
    run.end()
    assert (run.steps, run.best) == ([3], (3, None))
    assert run.actors(3) == [[3]]
    run = Saved(eval_every=1, start=3)
    run.act(1)
    run.saver.begin_evaluation()
    run.end()
    assert run.actors(4) == [[4]]
    run.saver.end_evaluation(Evaluated(4, 10.0))
    run.saver.finish()
    assert run.best == (4, 10.0)
    assert run.actors(4) == [[4]]


def test_an_evaluation_that_ends_late_leaves_the_newer_checkpoints() -> None:
    """On Ray training continues meanwhile, and checkpoints are written."""
    run = Saved(eval_every=1, checkpoint_every=3, checkpoint_replay=True)
    run.act(*[1] * 3)
    run.saver.begin_evaluation()
    run.act(*[1] * 2)
    run.saver.begin_evaluation()
    run.act(1)
    assert run.steps == [6, 3]
    run.saver.end_evaluation(FailedEvaluation(3))
    run.saver.end_evaluation(Evaluated(5, 10.0))
    run.act(1)
    run.saver.begin_evaluation()
    run.end(with_replay=True)
    assert (run.steps, run.best) == ([7, 6, 5], (5, 10.0))
    newest = all_checkpoints(run.directory.checkpoints)[0]
    assert replay_files(newest) != []
    run.saver.end_evaluation(
        Evaluated(7, 11.0)
    )  # of the newest, which keeps its replay
    run.saver.finish()
    assert (run.steps[0], run.best) == (7, (7, 11.0))
    assert replay_files(newest) != []


@pytest.mark.parametrize("ended", [FailedEvaluation(1), Evaluated(1, 1.0)])
def test_a_state_that_is_not_the_best_is_not_kept(
    ended: Evaluated | FailedEvaluation,
) -> None:
    """On Ray it would fill the object store."""
    run = Saved(eval_every=1)
    run.progress.best_evaluation = 2.0
    run.act(1)
    taken = [run.driver.snapshot(with_actors=False)]
    array = weakref.ref(taken[0].learner["learned"])
    run.driver.snapshot = taken.pop  # type: ignore[method-assign]
    run.saver.begin_evaluation()
    assert array() is not None
    run.saver.end_evaluation(ended)
    assert array() is None


def test_a_resumed_run_knows_its_best_evaluation() -> None:
    run = Saved(eval_every=1)
    run.act(1, 1)
    run.evaluate(60.0)
    run.saver.finish()
    Path("best.npz").unlink()
    assert Saved(eval_every=1, start=1).progress.best_evaluation is None
    resumed = Saved(eval_every=1, start=2)
    for mean, expected in ((50.0, (2, 60.0)), (70.0, (4, 70.0))):
        resumed.act(1)
        resumed.evaluate(mean)
        note = resumed.saver.finish()
        assert resumed.best == expected
        # Those of the earlier session too, which this one was to write.
        assert learned_in("best.npz") == expected[0]
        assert (note is None) == (mean == 70.0)


def test_a_run_that_goes_back_forgets_a_later_best() -> None:
    run = Saved()
    for mean in (1, 5, 9):
        run.act(*[mean] * 3)
        run.saver.write_best()
    assert run.best == (9, None)
    resumed = Saved(start=6, reward_buffer_size=99)
    resumed.act(*[2] * 5)
    assert resumed.best == (9, None)  # until there is another checkpoint
    resumed.end()
    assert resumed.steps == [11, 6, 3] and resumed.best == (6, None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({}, "fewer than 3 episodes"), ({"eval_every": 100}, "no evaluation ended")],
)
def test_without_a_best_the_final_weights_are_written(
    settings: dict[str, Any], words: str
) -> None:
    run = Saved(**settings)
    run.act(500, 500)
    assert not Path("best.npz").exists()
    run.end()
    note = run.saver.finish()
    assert note is not None and words in note
    assert learned_in("best.npz") == 2
    assert run.warnings == []


def test_a_best_state_that_is_lost_is_not_replaced_by_a_newer_one() -> None:
    """The learner dies before what it has returned is fetched."""
    run = Saved()
    run.act(1, 1, 1)
    run.saver.write_best()
    run.act(9)
    run.driver.lost.add(4)
    run.act(1)
    run.end()
    assert run.saver.finish() is None
    assert run.best == (3, None)
    assert learned_in("best.npz") == 3
    assert ["of 4 steps, were lost" in each for each in run.warnings] == [True]


def test_the_only_best_state_is_lost() -> None:
    run = Saved()
    run.driver.lost.add(3)
    run.act(1, 1, 1)
    run.act(0)
    run.end()
    note = run.saver.finish()
    assert note is not None and "lost" in note
    assert learned_in("best.npz") == 4
    assert best_checkpoint(run.directory.checkpoints) is None


def test_an_evaluation_whose_state_is_lost_is_not_the_best() -> None:
    run = Saved(eval_every=1)
    for mean in (40.0, 90.0, 50.0):
        run.act(1)
        run.driver.lost.add(2)
        run.evaluate(mean)
        run.saver.write_best()
    assert run.best == (3, 50.0)
    assert run.progress.best_evaluation == 50.0


def test_the_state_is_taken_when_due_only() -> None:
    run = Saved(checkpoint_every=5)
    due = []
    for returns in ([1, 1], [1], [0], [0], [9]):
        run.progress.collected([report(*returns)], run.config.training)
        due.append(run.saver.is_due)
        run.saver.between_phases()
        assert not run.saver.is_due
    # Full window, step 5, a new best mean.
    assert due == [False, True, False, True, True]
    assert run.saver.is_behind and run.steps == [5, 3]


def test_a_replay_that_cannot_be_written_costs_no_checkpoint() -> None:
    def fail(directory: Path) -> None:
        raise OSError("no space is left")

    run = Saved(checkpoint_every=2, checkpoint_replay=True)
    run.driver.save_replay = fail  # type: ignore[method-assign]
    run.act(1, 1)
    assert run.steps == [2] and not run.saver.is_behind
    assert run.warnings == [
        "A checkpoint with its replay can't be written; training continues: "
        "no space is left"
    ]


def test_a_checkpoint_that_is_lost_is_written_at_the_end() -> None:
    run = Saved(checkpoint_every=2)
    Path("run").write_text("in the way of the run's directory")
    run.act(1, 1)
    assert not run.saver.is_due and run.saver.is_behind
    Path("run").unlink()
    run.end()
    assert run.steps == [2]


def test_a_full_disk_costs_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Saved(checkpoint_every=1)
    Path("run").write_text("in the way of the run's directory")
    for _ in range(4):
        run.act(1)
    run.end()
    assert [each.split(" can't")[0] for each in run.warnings] == ["A checkpoint"]


def test_a_best_state_that_finds_no_room_is_tried_again() -> None:
    run = Saved(eval_every=1)
    run.act(1)
    run.evaluate(100.0)
    run.saver.write_best()
    run.directory.checkpoints.rename("aside")
    run.directory.checkpoints.write_text("in the way of the checkpoints")
    run.act(1)
    run.evaluate(500.0)
    run.saver.write_best()
    run.directory.checkpoints.unlink()
    Path("aside").rename(run.directory.checkpoints)
    assert run.best == (1, 100.0)
    run.act(1)
    run.evaluate(490.0)
    run.end()
    assert run.best == (2, 500.0)
