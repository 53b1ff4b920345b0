"""The Optuna study of a sweep, in real databases: what counts, what continues."""

import json
import time
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from processes import start

from xagents_ray import log_uniform
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.tuning.optuna_parts import without_password
from xagents_ray.tuning.plan import Plan
from xagents_ray.tuning.study import Study
from xagents_ray.tuning.sweep import plan_of

GIVEN = {"env": "CartPole-v1", "study": "s", "trial_steps": 1000, "n_trials": 6}
LR = {"lr": (1e-5, 1e-2)}


def planned(agent: str = "ppo", **more: Any) -> Plan:
    plan, _ = plan_of(ALGORITHMS[agent], {**GIVEN, **LR, **more})
    plan.directory.mkdir(parents=True, exist_ok=True)
    return plan


def opened(**more: Any) -> Study:
    return Study(planned(**more))


def asked(study: Study) -> Any:
    trial = study.ask()
    assert trial is not None
    return trial


def stored() -> optuna.Study:
    return optuna.load_study(study_name="s", storage="sqlite:///runs/tune/s/study.db")


def states() -> list[str]:
    return [trial.state.name for trial in stored().trials]


def test_as_many_trials_as_asked_for_and_no_more() -> None:
    """Complete, pruned and failed ones count; nothing else does."""
    study = opened()
    study.complete(asked(study), 3.0)
    study.prune(asked(study))
    study.fail(asked(study), "it broke")
    running = [asked(study) for _ in range(3)]
    assert study.ask() is None
    assert study.interrupt() == [3, 4, 5]
    again = [asked(study) for _ in range(3)]
    assert [t.params for t in again] == [t.params for t in running]
    assert study.ask() is None
    for trial in again:
        study.complete(trial, 1.0)
    assert study.ask() is None
    assert study.ended() == 6
    counts = {"complete": 4, "pruned": 1, "failed": 1, "interrupted": 3}
    assert dict(study.counts()) == counts
    assert "RUNNING" not in states() and "WAITING" not in states()
    best = study.best()
    assert best is not None and best.value == 3.0


def test_a_killed_sweep_continues() -> None:
    """Whoever is killed in between, no trial is queued twice and none is lost."""
    study = opened()
    first = asked(study)
    second = asked(study)
    # Killed between queueing the first one again and marking it.
    stored().enqueue_trial(first.params, user_attrs={"repeats": first.number})
    study = opened()
    trials = stored().trials
    assert states() == ["FAIL", "FAIL", "WAITING", "WAITING"]
    assert [t.user_attrs.get("repeats") for t in trials] == [None, None, 0, 1]
    assert all("ended" in t.user_attrs["interrupted"] for t in trials[:2])
    assert [asked(study).params for _ in "ab"] == [first.params, second.params]
    assert opened().ended() == 0


def suggestions(study: Study) -> list[dict[str, Any]]:
    found = []
    while (trial := study.ask()) is not None:
        found.append({**trial.params, **trial.user_attrs})
        study.complete(trial, trial.params["lr"])
    return found


def test_a_seed_repeats_the_suggestions() -> None:
    """And continuing in the middle changes nothing."""
    more: dict[str, Any] = {"n_trials": 15, "n_envs": (4, 8, 16), "seed": 7}
    whole = suggestions(opened(**more))
    assert [each["seed"] for each in whole] == list(range(7, 22))
    assert len({each["lr"] for each in whole}) == 15
    two = suggestions(opened(**more, storage="sqlite:///two.db"))
    assert two == whole
    suggestions(opened(**{**more, "n_trials": 4}, storage="sqlite:///three.db"))
    rest = suggestions(opened(**more, storage="sqlite:///three.db"))
    assert rest == whole[4:]
    other = opened(**{**more, "seed": 8}, storage="sqlite:///four.db")
    assert suggestions(other) != whole


def test_a_trial_that_is_begun_again_keeps_its_seed() -> None:
    study = opened(seed=7)
    seed = asked(study).user_attrs["seed"]
    study.interrupt()
    assert asked(study).user_attrs["seed"] == seed


def test_median_pruning_begins_after_the_warm_up() -> None:
    study = opened(warmup_trials=2, warmup_steps=0)
    point = planned().points[0]
    for value in (10.0, 20.0):
        trial = asked(study)
        assert not study.report(trial, point, value)
        study.complete(trial, value)
    worse = asked(study)
    assert study.report(worse, point, 9.0)
    assert study.prune(worse) == "pruned"
    assert not study.report(asked(study), point, 16.0)
    assert stored().trials[2].intermediate_values == {point: 9.0}


def completed(values: tuple[float, ...], **more: Any) -> tuple[Study, tuple[int, ...]]:
    """Return a study with complete trials of constant rewards, and its points."""
    study, points = opened(**more), planned(**more).points
    for value in values:
        trial = asked(study)
        for point in points:
            assert not study.report(trial, point, value)
        study.complete(trial, value)
    return study, points


def test_a_young_trial_is_not_pruned() -> None:
    """Not in the first tenth, where the mean of a few episodes says little."""
    study, points = completed((10.0, 20.0), warmup_trials=2)
    assert points[:2] == (50, 100)
    worse = asked(study)
    assert not study.report(worse, points[0], 1.0)
    assert study.report(worse, points[1], 1.0)
    study = opened(warmup_trials=2, warmup_steps=300)
    worse = asked(study)
    ends = [point for point in points if study.report(worse, point, 1.0)]
    assert ends == [point for point in points if point >= 300]


def test_a_trial_is_not_pruned_before_its_reward_window_is_full() -> None:
    study, points = completed((10.0, 20.0), warmup_trials=2)
    worse = asked(study)
    for point in points[:10]:
        assert not study.report(worse, point, 1.0, is_full=False)
    assert study.report(worse, points[10], 1.0, is_full=True)
    study = opened(warmup_trials=2, warmup_steps=300)  # that is said, and all there is
    assert study.report(asked(study), points[10], 1.0, is_full=False)


@pytest.mark.parametrize(("scheduler", "pruned"), [("asha", 4), ("none", 0)])
def test_other_schedulers(scheduler: str, pruned: int) -> None:
    """Successive halving keeps the best third at each rung, as they come."""
    study, point = opened(scheduler=scheduler), planned().points[0]
    values = (6.0, 5.0, 4.0, 3.0, 2.0)
    ends = [study.report(asked(study), point, value) for value in values]
    assert sum(ends) == pruned and not ends[0]


def test_warm_up_of_zero() -> None:
    study, point = opened(warmup_trials=0), planned().points[0]
    study.complete(asked(study), 1.0)
    assert not study.report(asked(study), point, 0.0)  # nothing to compare with


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"agent": "a2c"}, "has ppo for the agent, not a2c"),
        ({"env": "Acrobot-v1"}, "has CartPole-v1 for --env, not Acrobot-v1"),
        ({"trial_steps": 50}, "has 1000 for --trial-steps, not 50"),
        ({"n_envs": (4, 32)}, "varies n_envs over 4 8 and can't over 4 32"),
    ],
)
def test_a_study_of_something_else_is_refused(more: dict[str, Any], said: str) -> None:
    study = opened(n_envs=(4, 8))
    study.complete(asked(study), 1.0)
    study.release()
    with pytest.raises(UserError, match="take another --study") as error:
        opened(**more)
    assert said in str(error.value)


def test_other_bounds_do_not_make_another_study() -> None:
    study = opened()
    study.complete(asked(study), 1.0)
    study = opened(lr=(1e-4, 1e-3))
    assert 1e-4 <= asked(study).params["lr"] <= 1e-3


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_study_of_somebody_else_is_refused(direction: str) -> None:
    plan = planned()
    other = optuna.create_study(
        study_name="s", storage=plan.storage, direction=direction
    )
    other.tell(other.ask(), 1.0)
    with pytest.raises(UserError, match="isn't one of xagents-ray"):
        Study(plan)


def test_an_empty_study_is_taken() -> None:
    plan = planned()
    optuna.create_study(study_name="s", storage=plan.storage, direction="maximize")
    assert asked(Study(plan)).number == 0


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("nonsense", "Could not parse"),
        ("sqlite:////nowhere/study.db", "unable to open database file"),
        ("nonsense://host/study", "Can't load plugin"),
        ("postgresql://me:secret@host:port/study", "postgresql:…"),
        ("postgresql:/me:secret@host/study", "postgresql:…"),
        ("redis://host", "redis://host"),
        ("sqlite:///a{b}.db", "can't be opened"),
    ],
)
def test_databases_that_cannot_be_opened(storage: str, said: str) -> None:
    with pytest.raises(UserError, match="give a URL such as") as error:
        opened(storage=storage)
    assert said in str(error.value)
    assert str(error.value).count("\n") == 0
    assert "secret" not in str(error.value)


def test_passwords_are_not_shown() -> None:
    shown = without_password("postgresql://host/x?user=me&password=secret")
    assert "user=me" in shown and "secret" not in shown
    for url in ("mysql://me:secret@host/x", "postgresql://me:secret@host/x"):
        with pytest.raises(UserError) as error:
            opened(storage=url)
        assert "secret" not in str(error.value) and "me:***@host" in str(error.value)
        assert "needs the package" in str(error.value)


def test_a_database_that_breaks_is_reported_in_one_sentence() -> None:
    study = opened()
    trial = asked(study)
    Path("runs/tune/s/study.db").write_bytes(b"this is no database any more" * 1000)
    with pytest.raises(Broken, match=r"study\.db failed \(.+\); once it is fixed"):
        study.complete(trial, 1.0)


_AT_WORK = """
import json, sys, time
from xagents_ray.algorithms.table import (ALGORITHMS)
from xagents_ray.tuning.study import Study
from xagents_ray.tuning.sweep import plan_of
Study(plan_of(ALGORITHMS["ppo"], json.loads(sys.argv[1]))[0])
print("at work", flush=True)
time.sleep(1000)
"""


def test_two_processes_are_not_at_work_on_one_study() -> None:
    """But a dead one is in nobody's way."""
    planned()
    words = json.dumps({**GIVEN, "lr": [1e-5, 1e-2]})
    other = start("-c", _AT_WORK, words)
    assert other.stdout.readline() == "at work\n"
    with pytest.raises(UserError, match=f"Process {other.pid} on .+ is working on"):
        opened()
    other.kill()
    while psutil.Process(other.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    opened().release()
    other.communicate()
    opened()


@pytest.mark.parametrize(("silent", "is_live"), [(5, True), (500, False)])
def test_an_owner_on_another_machine(silent: float, is_live: bool) -> None:
    opened()
    seen = time.time() - silent
    owner = {"host": "elsewhere", "pid": 1, "started": 1.0, "seen": seen}
    stored().set_user_attr("sweep", owner)
    if is_live:
        with pytest.raises(UserError, match="Process 1 on elsewhere"):
            opened()
    else:
        opened()


def test_rows_and_frame() -> None:
    study = opened()
    trial = asked(study)
    study.note(trial, began=10.0, ended=12.5, env_steps=1003)
    study.complete(trial, 4.0)
    pruned = asked(study)
    study.report(pruned, 50, 2.0)
    study.prune(pruned)
    study.fail(asked(study), "the environment raised", "Traceback …")
    rows = study.rows()
    assert [(r.state, r.reward, r.seconds) for r in rows] == [
        ("complete", 4.0, 2.5),
        ("pruned", 2.0, None),
        ("failed", None, None),
    ]
    assert rows[0].env_steps == 1003 and rows[0].params == trial.params
    frame = study.frame()
    assert list(frame["state"]) == ["COMPLETE", "PRUNED", "FAIL"]
    assert frame["params_lr"][0] == trial.params["lr"]
    assert study.last_failure() == "the environment raised"


def test_spaces_from_python_and_the_command_line_are_one() -> None:
    assert planned(lr=log_uniform(1e-5, 1e-2)).spaces == planned().spaces
