"""A session from its first rollout to its result, with a scripted driver."""

import math
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as parquet
import pytest
from fake_driver import FakeDriver, FakeSupervision, learned_in
from sessions import RUN, SETTINGS, raising, steps, summary, train

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import Broken, Diverged, Stopped, UserError
from xagents_ray.core.reports import Evaluated, FailedEvaluation
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Fill
from xagents_ray.networks import layout
from xagents_ray.run.prepare import find_run
from xagents_ray.run.request import Request
from xagents_ray.run.session import run_session
from xagents_ray.settings.config import Config
from xagents_ray.settings.options import flag
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best_checkpoint,
    load_checkpoint,
    step_of,
)
from xagents_ray.storage.history import History
from xagents_ray.storage.lock import locked_directory
from xagents_ray.storage.run_directory import RunDirectory

NETWORK = Path(layout.__file__).with_name("actor-critic-vector.cfg")


def test_a_run_ends_after_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    driver, watched = FakeDriver([[1, 2], [3, 4]]), list[int]()
    driver.notes = ["A note of the driver."]
    result = train(driver, max_steps=4, watch=lambda p: watched.append(p.env_steps))
    assert result.reason == "Reached --max-steps"
    assert (result.env_steps, result.updates, result.games) == (4, 2, 4)
    assert result.episodes == ((1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0))
    assert watched == [0, 2, 4]
    assert driver.events == [
        ("learn", 1, 2),
        ("evaluations", False),
        ("learn", 1, 4),
        ("evaluations", False),
        ("evaluations", True),
        ("close",),
    ]
    newest = load_checkpoint(RUN / "checkpoints" / "step-000000000004")
    assert newest.arrays["learned"] == newest.facts["progress"]["updates"] == 2
    assert summary()["reason"] == result.reason
    assert History(RUN / "history.parquet").rows == 4
    out = capsys.readouterr().out
    assert "a: 1 env actor, seed 1\n" in out and "A note of the driver.\n" in out
    assert out.endswith("Reached --max-steps\n")


def test_a_run_that_ends_while_it_starts_leaves_its_name_free() -> None:
    """Ray's client may end the process, which cleans nothing up then."""

    def start(*_: Any) -> NoReturn:
        assert not RUN.exists()
        raise Broken("Ray did not start")

    algorithm = find_algorithm("ppo")
    config = Config.of(algorithm.config, SETTINGS)
    with pytest.raises(Broken):
        run_session(algorithm, config, Signals(), start)
    assert train(FakeDriver([[1]]), max_steps=1).directory == str(RUN)
    with pytest.raises(UserError, match="a already exists: resume it with"):
        train(FakeDriver([]))


def test_the_state_that_reaches_the_target_is_the_best() -> None:
    driver = FakeDriver([[1, 1, 1], [9, 9, 9]])
    result = train(driver, target_reward=9, checkpoints=("best.npz",))
    assert result.reason == "Reward achieved in 6 steps"
    assert [event for event in driver.events if event[0] == "learn"] == [
        ("learn", 1, 3)
    ]
    path = best_checkpoint(RUN / "checkpoints")
    assert path is not None and step_of(path) == 6
    assert learned_in("best.npz") == 1


def test_a_signal_saves_the_run(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> NoReturn:
        signals.press(signal.SIGTERM)
        raise Stopped

    driver = FakeDriver([[1], [1], stop])
    result = train(driver, signals)
    assert (result.reason, result.signal) == ("Stopped by SIGTERM", signal.SIGTERM)
    assert steps() == [2]
    out = capsys.readouterr().out
    assert out.endswith(f"To continue: xagents-ray train ppo --resume {RUN}\n")
    assert ("evaluations", True) not in driver.events  # it waits for none
    assert summary()["signal"] == signal.SIGTERM


def test_the_command_that_continues_can_be_pasted_into_a_shell(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    def last() -> list[float]:
        signals.press(signal.SIGINT)
        return [1]

    train(FakeDriver([last]), signals, run_dir="my runs")
    path = Path("my runs", *RUN.parts[1:])
    assert capsys.readouterr().out.endswith(f"train ppo --resume '{path}'\n")
    with pytest.raises(UserError, match=f"resume it with --resume '{path}', or"):
        train(FakeDriver([]), run_dir="my runs")


def test_a_run_without_a_checkpoint_names_no_command_that_continues_it(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    signals.press(signal.SIGINT)
    train(FakeDriver([]), signals)
    assert steps() == []
    assert capsys.readouterr().out.endswith("Stopped by SIGINT\n")


def test_a_run_that_went_back_in_vain_names_no_command_that_continues_it(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """--resume would take a checkpoint later than the one that it went back to."""
    train(FakeDriver([[1, 1, 1], [1]]), max_steps=4)
    assert steps() == [4, 3]
    earlier = str(RUN / "checkpoints" / "step-000000000003")
    signals.press(signal.SIGINT)
    train(FakeDriver([]), signals, resume=earlier, max_steps=9)
    assert capsys.readouterr().out.endswith("Stopped by SIGINT\n")


def test_a_signal_between_rounds_starts_no_other(signals: Signals) -> None:
    def last() -> list[float]:
        signals.press(signal.SIGINT)
        return [1]

    result = train(FakeDriver([[1], last]), signals)
    assert (result.reason, result.updates, steps()) == ("Stopped by SIGINT", 2, [2])


def test_a_learner_that_is_busy_when_the_run_ends(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> NoReturn:
        signals.press(signal.SIGTERM)
        driver.on_drain = raising(Stopped())
        raise Stopped

    driver = FakeDriver([[1], [1], [1], stop], ahead=1)
    result = train(driver, signals, checkpoint_every=2, reward_buffer_size=9)
    assert result.reason == "Stopped by SIGTERM"
    assert steps() == [2]
    said = capsys.readouterr().out
    assert "The learner was busy: its newest state is not saved." in said
    assert "The newest checkpoint is of 2 env steps." in said


def test_what_diverged_is_not_saved(capsys: pytest.CaptureFixture[str]) -> None:
    driver = FakeDriver([[1, 1, 1], [1]])
    driver.metrics = lambda: {"loss": math.nan if driver.learned else 0.5}
    with pytest.raises(Diverged, match="loss is nan after 4 env steps: lower --lr"):
        train(driver)
    assert steps() == [3]  # the best state before it
    assert "loss is nan" in summary()["reason"]
    assert driver.events[-1] == ("close",)
    assert "To continue" not in capsys.readouterr().out  # it would diverge again


def test_what_is_left_of_a_broken_run_is_saved() -> None:
    driver = FakeDriver([[1], [1], raising(Broken("No env actor is left."))])
    driver.supervision = FakeSupervision()
    driver.supervision.failures["env actors"] = 4
    with pytest.raises(Broken, match="No env actor is left"):
        train(driver)
    assert steps() == [2]
    assert summary()["reason"] == "No env actor is left."
    assert summary()["failures"] == {"env actors": 4}


def test_phases_that_failed_do_not_keep_the_rest_from_being_saved() -> None:
    def fail() -> NoReturn:
        driver.on_drain = lambda: None
        raise Broken("The learner failed.")

    driver = FakeDriver([[1], [1], raising(Broken("No env actor is left."))])
    driver.on_drain = fail
    with pytest.raises(Broken, match="No env actor is left"):
        train(driver, checkpoint_every=1_000, reward_buffer_size=9)
    assert steps() == [2]


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("error", [KeyError("a bug"), SystemExit("a user's")])
def test_an_unexpected_error_is_shown_and_the_run_saved(
    saves: bool, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = FakeDriver([[1], [1], raising(error)])
    if not saves:
        driver.state = raising(RuntimeError("another"))  # type: ignore[method-assign]
    driver.metrics = lambda: {"own": 1.0}
    with pytest.raises(type(error), match="a "):
        train(driver, tensorboard=True)
    assert steps() == ([2] if saves else [])
    hint = f"To continue: xagents-ray train ppo --resume {RUN}\n"
    assert capsys.readouterr().out.endswith(hint) is saves
    assert summary()["reason"].startswith(f"{type(error).__name__}: ")
    (events,) = (RUN / "tensorboard").iterdir()
    assert b"own" in events.read_bytes()


def test_phases_in_progress_are_counted_before_the_state_is_taken() -> None:
    driver = FakeDriver([[1]] * 7, ahead=1)
    result = train(driver, max_steps=7, checkpoint_every=2, keep_checkpoints=9)
    assert result.updates == 7 and steps() == [7, 6, 4, 3, 2]
    for path in all_checkpoints(RUN / "checkpoints"):
        saved = load_checkpoint(path)
        assert saved.facts["progress"]["updates"] == saved.arrays["learned"]


def test_evaluations_choose_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    driver = FakeDriver([[1]] * 7, ahead=1)
    driver.scores.extend([5.0, 7.0])  # a third one is skipped
    result = train(driver, max_steps=7, eval_every=2)
    assert result.best_evaluation == 7.0
    path = best_checkpoint(RUN / "checkpoints")
    assert path is not None and step_of(path) == 4
    saved = load_checkpoint(path)
    assert saved.facts["progress"]["updates"] == saved.arrays["learned"] == 4
    out = capsys.readouterr().out
    assert "Evaluation at 2 steps: mean reward 5.00" in out
    assert "Evaluation at 6" not in out


def test_an_evaluation_that_fails_is_not_the_best(
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = FakeDriver([[1]] * 6)
    driver.scores.extend([5.0, None, 4.0])
    result = train(driver, max_steps=6, eval_every=2)
    assert result.best_evaluation == 5.0
    out = capsys.readouterr().out
    assert "Evaluation at 4" not in out and "Evaluation at 6 steps" in out


def test_a_signal_while_the_last_evaluation_is_awaited(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that have ended by then count."""

    class Waiting(FakeDriver):
        def evaluations(self, is_last: bool) -> list[Evaluated | FailedEvaluation]:
            if is_last:
                signals.press(signal.SIGINT)
                raise Stopped
            return super().evaluations(is_last) if signals.received else []

    driver = Waiting([[1]] * 2)
    driver.scores.append(5.0)
    result = train(
        driver, signals, max_steps=2, eval_every=2, checkpoints=("best.npz",)
    )
    assert result.best_evaluation == 5.0 and learned_in("best.npz") == 2
    assert "checkpoint is older" not in capsys.readouterr().out


def test_a_signal_while_the_replay_is_written(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint is written without it, and the run can be continued."""

    def stop(directory: Path) -> NoReturn:
        signals.press(signal.SIGINT)
        raise Stopped

    driver = FakeDriver([[1], [1]])
    driver.save_replay = stop  # type: ignore[method-assign]
    replay = {"checkpoint_replay": True, "replay_ratio": 1.0}
    train(driver, signals, checkpoint_every=1, **replay)
    out = capsys.readouterr().out
    assert steps() == [1] and "can't be written" not in out
    assert out.endswith(f"To continue: xagents-ray train ppo --resume {RUN}\n")


def test_an_earlier_run_with_no_replay_to_hold_is_resumed() -> None:
    train(FakeDriver([[1]]), max_steps=1)
    directory = RunDirectory(RUN)
    agent, stored = directory.settings()
    earlier = Config.of(
        find_algorithm(agent).config, {**stored, "checkpoint_replay": True}
    )
    directory.begin(agent, 1, earlier.groups(), {})
    result = train(FakeDriver([[1]]), resume=str(RUN), max_steps=2)
    assert result.env_steps == 2


PLATEAU = {
    "divergence_monitoring_steps": 1,
    "plateau_reduce_patience": 1,
    "early_stop_patience": 2,
    "plateau_reduce_factor": 0.5,
}


def test_a_plateau_reduces_the_learning_rate_and_ends_the_run() -> None:
    driver = FakeDriver([[1]] * 9)
    result = train(driver, **PLATEAU)
    assert result.reason == "Stopped early at 5 steps"
    assert driver.events.count(("scale_lr", 0.5)) == 2
    # The round in which it stopped is learned from too.
    assert result.updates == 5


def test_a_lucky_first_episode_makes_no_plateau() -> None:
    driver = FakeDriver([[8], [0], [0], [9], [9], [9]])
    result = train(driver, max_steps=6, **PLATEAU)
    assert result.reason == "Reached --max-steps"
    assert ("scale_lr", 0.5) not in driver.events


def test_failures_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    driver = FakeDriver([[1], [1]])
    driver.supervision = supervision = FakeSupervision()
    supervision.failures["env actors"] = 1
    supervision.warnings.append("Env actor 0 died; it is replaced")
    result = train(driver, max_steps=2)
    assert result.failures == {"env actors": 1}
    assert supervision.published[-1]["lost/env actors"] == 1
    assert supervision.published[-1]["env_steps"] == 2
    out = capsys.readouterr().out
    assert out.count("Warning: Env actor 0 died; it is replaced") == 1
    assert out.endswith("Lost and replaced: env actors: 1\n")


@pytest.mark.parametrize("quiet", [False, True])
def test_what_environments_print_is_shown_unless_the_run_is_quiet(
    quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = FakeDriver([[1], [2], raising(Broken("No env actor is left."))])
    driver.supervision = FakeSupervision()
    driver.supervision.printed += ["Env actor 0: hello", "Env actor 1: [bold]hello"]

    def state() -> Any:
        assert driver.supervision is not None
        driver.supervision.printed.append("Env actor 0: the last words")
        return FakeDriver.state(driver)

    driver.state = state  # type: ignore[method-assign]
    with pytest.raises(Broken):
        train(driver, quiet=quiet)
    printed = [x for x in capsys.readouterr().out.splitlines() if x[:4] == "Env "]
    assert printed == (
        []
        if quiet
        else [
            "Env actor 0: hello",
            "Env actor 1: [bold]hello",
            "Env actor 0: the last words",
        ]
    )


def test_an_algorithm_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Of targets outside the support of distributions, from 5 % on."""
    driver = FakeDriver([[1]] * 4)
    driver.fill = Fill(1, False)
    shares = iter([0.01, 0.04, 0.27, 0.5])
    driver.metrics = lambda: {"loss": 0.5, "clipped": next(shares)}
    c51 = {"distributional": True, "v_max": 100, "buffer_initial_size": 1}
    every = {"rollout_length": 1, "train_frequency": 1, "buffer_batch_size": 1}
    train(driver, agent="dqn", max_steps=4, **c51, **every)
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "arning" in x]
    assert "27% of the targets are outside --v-min -10 and --v-max 100" in line


def test_a_run_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    train(FakeDriver([[1, 2], [3, 4]]), max_steps=4)
    driver = FakeDriver([[5, 6]])
    result = train(driver, resume=str(RUN), max_steps=6)
    assert (result.env_steps, result.games, result.updates) == (6, 6, 3)
    assert (result.dropped, driver.events[0]) == (2, ("restore", 1))
    assert result.mean_reward == 5.0
    newest = load_checkpoint(RUN / "checkpoints" / "step-000000000006")
    assert newest.facts["session"] == 1 and newest.arrays["learned"] == 3
    assert History(RUN / "history.parquet").rows == 6
    assert "Resumed at 4 env steps; unfinished episodes dropped: 2" in (
        capsys.readouterr().out
    )


def test_a_resumed_run_says_which_checkpoint_it_skipped() -> None:
    train(FakeDriver([[1, 2], [3, 4]]), max_steps=2)
    train(FakeDriver([[3, 4]]), resume=str(RUN), max_steps=4)
    newest = RUN / "checkpoints" / "step-000000000004"
    (newest / "facts.json").write_text("{}")
    request = Request.of(find_algorithm("ppo"), {"resume": "last", "max_steps": 4})
    assert request.resumed is not None
    assert request.resumed.checkpoint.path.name == "step-000000000002"
    (note,) = request.notes
    assert note.startswith(f"Skipped a damaged checkpoint: {newest}/facts.json")


def test_a_resumed_run_shows_its_replay_at_once() -> None:
    """In the first line, before anything is added."""
    every = {"rollout_length": 1, "train_frequency": 1, "buffer_batch_size": 1}
    shown = list[int | None]()
    for size, more in ((3, {"max_steps": 2, **every}), (7, {"resume": "last"})):
        driver = FakeDriver([[1, 1]])
        driver.fill = Fill(size, False)
        more = {"max_steps": 4, **more, "agent": "dqn"}
        train(driver, watch=lambda x: shown.append(x.replay_size), **more)
    assert shown == [3, 3, 7, 7]


def test_what_a_later_checkpoint_needs_stays_until_there_is_another() -> None:
    def rows(path: Path = RUN / "history.parquet") -> int:
        return History(path).rows

    named = Path("h.parquet")
    elsewhere = {"history_checkpoint": str(named)}
    kept = {"checkpoint_every": 2, "keep_checkpoints": 9, "reward_buffer_size": 9}
    first = FakeDriver([[1], [2], [3]])
    train(first, max_steps=3, **elsewhere, **kept)
    assert steps() == [3, 2]
    earlier = str(RUN / "checkpoints" / "step-000000000002")
    driver = FakeDriver([[8], raising(KeyError("a bug"))])
    driver.state = raising(RuntimeError("another"))  # type: ignore[method-assign]
    with pytest.raises(KeyError, match="a bug"):
        train(driver, resume=earlier, max_steps=9, **elsewhere)
    assert steps() == [3, 2] and rows() == rows(named) == 3
    assert "a bug" in summary()["reason"]  # not that of the first session
    train(FakeDriver([[4]]), resume=str(RUN), max_steps=4, **elsewhere)
    assert rows() == rows(named) == 4 and steps() == [4, 3, 2]
    train(FakeDriver([[9]]), resume=earlier, max_steps=3, **elsewhere)
    assert steps() == [3, 2] and rows() == rows(named) == 3


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("checkpoints", ("../out.npz",)),
        ("checkpoints", (f"{RUN}/in.npz", "/tmp/out.npz")),
        ("history_checkpoint", "/tmp/out.parquet"),
        ("history_checkpoint", f"{RUN}/../out.parquet"),
    ],
)
def test_a_resumed_run_writes_elsewhere_only_where_the_user_names(
    name: str, paths: Any
) -> None:
    """Its settings may be someone else's."""
    train(FakeDriver([[1, 2]]), max_steps=2)
    agent, settings = RunDirectory(RUN).settings()
    config = Config.of(find_algorithm(agent).config, {**settings, name: paths})
    RunDirectory(RUN).begin(agent, 1, config.groups(), {})
    named = flag(name)
    expected = rf"writes \S*out\.\S+, outside of its directory: give {named} again"
    with pytest.raises(UserError, match=expected):
        find_run(agent, {"resume": str(RUN)})
    again = {"resume": str(RUN), name: paths}
    assert find_run(agent, again)[1][name] == paths
    inside = {"checkpoints": (f"{RUN}/in.npz",), "history_checkpoint": f"{RUN}/h"}
    assert find_run(agent, {**again, **inside})[1][name] == inside[name]
    config = Config.of(find_algorithm(agent).config, {**settings, **inside})
    RunDirectory(RUN).begin(agent, 1, config.groups(), {})
    assert find_run(agent, {"resume": str(RUN)})[1][name] == inside[name]


@pytest.mark.parametrize(
    "name",
    ["checkpoints", "history.parquet", "tensorboard", "video/.episode-1.partial.mp4"],
)
def test_a_resumed_run_follows_no_link_to_elsewhere(name: str) -> None:
    train(FakeDriver([[1, 2]]), max_steps=2)
    within = RUN / "within"
    inner = RUN / name
    inner.parent.mkdir(exist_ok=True)
    if inner.exists():
        inner.rename(within)
    inner.symlink_to("within")
    find_run("ppo", {"resume": str(RUN)})
    inner.unlink()
    elsewhere = Path("elsewhere").resolve()
    if within.exists():
        within.rename(elsewhere)
    inner.symlink_to(elsewhere)
    message = rf"{name} is a link to {elsewhere}, outside of the run's directory"
    with pytest.raises(UserError, match=message):
        find_run("ppo", {"resume": str(RUN)})


def test_a_resumed_run_may_name_its_own_network() -> None:
    own, other = Path("my.cfg"), Path("other.cfg")
    own.write_text(NETWORK.read_text())
    other.write_text(NETWORK.read_text().replace("64", "32"))
    train(FakeDriver([[1, 2]]), max_steps=2, model="my.cfg")
    given = {"resume": str(RUN), "model": "my.cfg"}
    assert find_run("ppo", given)[1]["model"] == str(RUN / "model.cfg")
    own.write_text(other.read_text())
    for name in ("my.cfg", "other.cfg", "gone.cfg"):
        with pytest.raises(UserError, match=r"--model is .* and can't change"):
            find_run("ppo", {**given, "model": name})


def test_one_process_at_a_time_trains_a_run() -> None:
    held = rf"a is being trained by process {os.getpid()} on .*: end it first"

    def others() -> list[float]:
        with pytest.raises(UserError, match=held):
            find_run("ppo", {"resume": str(RUN)})
        return [1]

    train(FakeDriver([[1], others]), max_steps=2)
    resumed, given = find_run("ppo", {"resume": str(RUN), "max_steps": 4})
    algorithm, driver = find_algorithm("ppo"), FakeDriver([[1], others])
    facts = algorithm, Config.of(algorithm.config, given), Signals()
    with locked_directory(RUN), pytest.raises(UserError, match=held):  # a moment ago
        run_session(*facts, lambda *_: driver, resumed)
    assert driver.events == [("restore", 1), ("close",)] and steps() == [2]
    assert run_session(*facts, lambda *_: driver, resumed).env_steps == 4


def placement(**resumed_with: Any) -> dict[str, Any]:
    """Return the stored and given placement of a run that is resumed."""
    settings = find_run("ppo", {"resume": str(RUN), **resumed_with})[1]
    Config.of(find_algorithm("ppo").config, settings)  # is accepted
    return {k: settings[k] for k in ("local", "n_actors", "address") if settings.get(k)}


def test_a_run_is_resumed_elsewhere() -> None:
    """What a placement rules out of the stored one doesn't have to be unset."""
    on_ray = {"n_actors": 2, "address": "10.0.0.1:6379"}
    train(FakeDriver([[1, 2]]), max_steps=2, n_envs=4, **on_ray)
    assert placement() == on_ray
    assert placement(n_actors=3) == {**on_ray, "n_actors": 3}
    assert placement(local=True) == {"local": True}


def test_what_a_local_run_lacks_is_left_out_when_it_is_resumed() -> None:
    on_ray = {"replay_ratio": 1.0, "replay_shards": 2, "round_deadline": 5.0}
    train(FakeDriver([[1, 2]]), max_steps=2, n_envs=4, **on_ray)
    assert placement(local=True) == {"local": True}


def test_a_local_run_is_resumed_on_ray() -> None:
    train(FakeDriver([[1, 2]]), max_steps=2, n_envs=4, local=True)
    assert placement() == {"local": True}
    assert placement(n_actors=2) == {"n_actors": 2}
    assert placement(local=False) == {}


def test_a_run_that_is_over_starts_no_driver() -> None:
    first = FakeDriver([[1, 2], [3, 4]])
    first.scores.append(7.0)
    train(first, max_steps=4, eval_every=2)
    driver = FakeDriver()
    result = train(driver, resume=str(RUN))
    assert result.best_evaluation == 7.0
    assert result.reason.endswith("raise --max-steps or --target-reward to continue")
    assert (result.n_actors, result.directory, driver.events) == (0, str(RUN), [])


def test_a_signal_while_the_driver_starts(signals: Signals) -> None:
    def start(*_: Any) -> NoReturn:
        signals.press(signal.SIGINT)
        raise Stopped

    config = Config.of(find_algorithm("ppo").config, SETTINGS)
    result = run_session(find_algorithm("ppo"), config, signals, start)
    assert (result.reason, result.directory) == ("Stopped by SIGINT", "")
    assert not RUN.exists()


def test_a_history_is_continued_by_another_run() -> None:
    named = {"history_checkpoint": "h.parquet"}
    train(FakeDriver([[1, 2], [3, 4]]), max_steps=4, **named)
    result = train(FakeDriver([[8, 9]]), max_steps=6, name="b", **named)
    assert (result.env_steps, result.games, result.mean_reward) == (6, 6, 7.0)
    assert parquet.read_table("h.parquet")["step"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert History(RUN.parent / "b" / "history.parquet").rows == 2
    over = train(FakeDriver(), max_steps=6, name="c", **named)
    assert over.reason.startswith("Reached --max-steps: raise")
    assert over.episodes == ()


def test_the_best_and_the_last_are_kept() -> None:
    driver = FakeDriver([[n] for n in (1, 9, 9, 9, 1, 1, 1)])
    result = train(driver, max_steps=7, checkpoint_every=1, keep_checkpoints=2)
    assert steps() == [7, 6, 4]
    kept = best_checkpoint(RUN / "checkpoints")
    assert kept is not None
    assert (
        load_checkpoint(kept).facts["progress"]["best_reward"]
        == result.best_reward
        == 9
    )


def test_a_result_is_a_page_at_most() -> None:
    result = train(FakeDriver([[n % 7] * 100 for n in range(90)]), max_steps=9_000)
    assert len(result.episodes) == 9_000 and len(repr(result)) < 1_000
    assert "(1, 0.0)" not in repr(result)
    html = result._repr_html_()
    assert "<th>env steps</th><td>9000</td>" in html and len(html) < 2_000
    assert "<td>min 0, mean 0, max 0</td>" in html
    assert "best evaluation" not in html  # there was none
