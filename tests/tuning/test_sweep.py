"""A sweep's plan, what it shows and what it leaves; no trial is run here."""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import cloudpickle
import matplotlib
import numpy as np
import pytest
import yaml
from fake_driver import FakeDriver
from rich.console import Console
from sessions import SETTINGS

from xagents_ray import categorical, log_uniform
from xagents_ray.algorithms import presets
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands import all_commands, cli
from xagents_ray.commands import tune as tuning
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Outcome, Report, Supervisor
from xagents_ray.settings.run import DisplayConfig
from xagents_ray.tuning.plan import (
    UNSUPPORTED_OPTIONS,
    Plan,
    TuneConfig,
    preset_yaml,
    train_command,
)
from xagents_ray.tuning.study import Study
from xagents_ray.tuning.sweep import plan_of, run_sweep, write_report
from xagents_ray.tuning.sweep_display import SweepDisplay, TrialRow
from xagents_ray.tuning.trial_training import end_of_trial, train_trial

GIVEN = {"env": "CartPole-v1", "study": "s", "trial_steps": 1000, "n_trials": 6}


def planned(agent: str = "ppo", **more: Any) -> Plan:
    return plan_of(ALGORITHMS[agent], {**GIVEN, **more})[0]


def reported(plan: Plan, *values: float) -> tuple[Study, list[str]]:
    """Report a study whose trials had these rewards; return it and what was said."""
    plan.directory.mkdir(parents=True)
    study, said = Study(plan), list[str]()
    for value in values:
        trial = study.ask()
        assert trial is not None
        study.note(trial, settings=plan.settings(trial.params, None))
        study.complete(trial, value)
    write_report(plan, study, said.append)
    return study, said


@pytest.mark.parametrize(("steps", "points"), [(1000, 19), (20, 19), (5, 4), (1, 1)])
def test_points_at_which_trials_are_compared(steps: int, points: int) -> None:
    found = planned(trial_steps=steps).points
    assert len(found) == points and list(found) == sorted(set(found))
    assert found[0] >= 1 and found[-1] <= steps


def test_settings_of_a_trial() -> None:
    plan = planned(lr=(1e-5, 1e-2), n_envs=8, quiet=True)
    fixed = {"env": "CartPole-v1", "n_envs": 8, "quiet": True, "max_steps": 1000}
    assert plan.settings({"lr": 1e-3}, seed=None) == {**fixed, "lr": 1e-3}
    config = plan.checked(plan.run(plan.settings({"lr": 1e-3}, seed=5), 3))
    assert config.run.name == "trial-3"
    assert config.run.run_dir == str(Path("runs/tune/s").resolve())
    assert config.training.seed == 5 and config.training.max_steps == 1000


def test_variables_of_workers_are_no_settings_of_a_trial() -> None:
    """A study, which others may read, has none of them."""
    given = {"worker_env": {"LICENSE": None, "LEVEL": "2"}, "lr": (1e-5, 1e-2)}
    plan = planned(**given)
    assert plan.ray.worker_env == ("LICENSE", "LEVEL=2")
    assert "worker_env" not in plan.fixed
    _, said = reported(plan, 1.0)
    assert "--worker-env LICENSE LEVEL=2" in "".join(said)
    local = planned(**given, local=True)  # its trials are workers, too
    assert local.ray == plan.ray


def test_a_trials_directory_is_its_own() -> None:
    """A study of this name in another database has left its runs here."""
    Path("runs/tune/s/ppo/CartPole-v1/trial-3").mkdir(parents=True)
    assert planned().run({}, 3)["name"] == "trial-3-2"


def test_values_of_numpy_and_paths_can_be_kept_in_a_study() -> None:
    given = {"lr": log_uniform(np.float64(1e-5), 1e-2), "n_steps": [np.int64(8), 16]}
    plan = planned(**given, gamma=np.float64(0.9), trial_steps=1e3, model=Path("m.cfg"))
    assert plan.config.trial_steps == 1000
    settings = [*plan.fixed.items(), *((n, s.values) for n, s in plan.spaces.items())]
    assert json.loads(json.dumps(dict(settings)))["n_steps"] == [8, 16]


def test_a_preset_lies_below_what_is_given() -> None:
    plan = planned(preset="auto", lr=(1e-4, 1e-2), gamma=0.9)
    ours = presets.apply(ALGORITHMS["ppo"], {"env": "CartPole-v1", "preset": "auto"})
    assert plan.fixed["gamma"] == 0.9 != ours["gamma"]
    assert plan.fixed["n_steps"] == ours["n_steps"]
    assert list(plan.spaces) == ["lr"] and "lr" not in plan.fixed
    assert not plan.fixed.keys() & {"preset", "max_steps"}


def test_what_varies_replaces_a_presets_settings() -> None:
    """`train` refuses --lr beside TRPO's --critic-lr."""
    plan = planned("trpo", preset=True, critic_lr=log_uniform(1e-4, 1e-2))
    assert "lr" not in plan.fixed and plan.fixed["n_envs"] == 2
    for value in (1e-4, 1e-2):
        presets.apply(plan.algorithm, plan.settings({"critic_lr": value}, None))
    plan = planned("trpo", preset=True, critic_lr=categorical(None, 1e-3))
    without, replacing = (plan.settings({"critic_lr": x}, None) for x in (None, 1e-3))
    assert without["lr"] == 1e-3 and "lr" not in replacing


@pytest.mark.parametrize(
    ("agent", "given", "said"),
    [
        (
            "trpo",
            {"lr": log_uniform(1e-4, 1e-2), "critic_lr": 1e-3},
            "--lr has no effect with --critic-lr: drop one",
        ),
        (
            "acer",
            {"trust_region": False, "delta": log_uniform(0.1, 0.9)},
            "--delta has no effect without --trust-region",
        ),
    ],
)
def test_what_varies_has_an_effect(agent: str, given: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        planned(agent, **given)


@pytest.mark.parametrize("name", ["lr{}", "{x}", "why?", "a%41"])
def test_a_study_whose_database_has_no_url(name: str) -> None:
    with pytest.raises(UserError, match="give a --study and a --run-dir without"):
        planned(study=name)
    assert planned(study=name, storage="sqlite:///a.db").study == name


@pytest.mark.parametrize("name", UNSUPPORTED_OPTIONS)
def test_settings_that_a_sweep_has_none_of(name: str) -> None:
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(UserError, match=f"{flag} isn't a setting of tune: "):
        planned(**{name: 10})


def test_trials_have_a_number_of_env_actors() -> None:
    """It is refused before Ray starts, and leaves no study."""
    with pytest.raises(UserError, match="--n-actors auto gives a run what is free"):
        planned(n_actors="auto", lr=(1e-4, 1e-3))
    assert not Path("runs").exists()


def test_several_trials_need_something_that_varies() -> None:
    said = r"^Nothing varies, so 6 trials .* several values, as in --lr 1e-5 1e-2, or"
    with pytest.raises(UserError, match=said):
        run_sweep(
            ALGORITHMS["ppo"], {**GIVEN, "lr": 1e-3}, lambda *_: pytest.fail("begun")
        )
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b"])
def test_a_study_names_a_directory(name: str) -> None:
    with pytest.raises(UserError, match=r"--study .+ can't name a directory"):
        planned(study=name)


def test_a_study_has_no_control_characters() -> None:
    with pytest.raises(UserError, match="--study takes text without control char"):
        planned(study="a\0b")


COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("ppo", {"env": "CartPole-v1", "n_envs": 8, "lr": 1.2345678901234567e-05}),
    ("ppo", {"env": "ALE/Pong-v5", "preprocess": True, "max_frame": False}),
    ("acer", {"env": "CartPole-v1", "trust_region": False, "tensorboard": False}),
    ("td3", {"env": "Pendulum-v1", "weights": ["a b.tf", "b.tf", "c.tf"]}),
    ("dqn", {"env": "CartPole-v1", "optimizer": "rmsprop", "local": True, "seed": 4}),
]


@pytest.mark.parametrize(("agent", "settings"), COMMANDS)
def test_a_command_line_means_the_settings(
    agent: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: dict[str, Any] = {}
    group: Any = all_commands.COMMANDS["train"]
    train = group.get_command(click.Context(group), agent)

    def call(**given: Any) -> int:
        got.update({k: v for k, v in given.items() if v not in (None, ())})
        return 0

    train.callback = call  # a new one is made each time that it is asked for
    monkeypatch.setattr(group, "get_command", lambda *_: train)
    words = train_command(ALGORITHMS[agent], settings)
    assert words[:3] == ["xagents-ray", "train", agent]
    assert cli.run(words[1:]) == 0
    expected = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    assert got == {k: v for k, v in expected.items() if k != "max_frame" or v}


def test_a_preset_file_is_what_train_takes() -> None:
    model = Path("own.cfg")
    model.write_text("[dense-0]\nunits=8\ncommon=1\n", "utf-8")
    plan = planned(model="own.cfg", quiet=True, local=True, seed=3)
    settings = plan.settings({"lr": 1e-3}, seed=3)
    folder = Path("elsewhere")
    folder.mkdir()
    row, expected = ALGORITHMS["ppo"], "200.00 after 1000 env steps"
    text = preset_yaml(row, settings, expected, "trial 1 of s")
    (folder / "best.yaml").write_text(text, "utf-8")
    given = {"preset": str(folder / "best.yaml")}
    kept = {"env": "CartPole-v1", "lr": 1e-3, "max_steps": 1000}
    kept["model"] = str(model.resolve())
    assert presets.apply(ALGORITHMS["ppo"], given) == {**given, **kept}


def parsed(monkeypatch: pytest.MonkeyPatch, words: str) -> Plan:
    """Return the plan that a command line makes; nothing is started."""
    plans = []

    def tune_with(algorithm: Any, given: Any) -> Any:
        plans.append(plan_of(algorithm, given)[0])
        return SimpleNamespace(signal=None)

    monkeypatch.setattr(tuning, "tune_with", tune_with)
    assert cli.run(["tune", *words.split()]) == 0
    return plans[0]


def test_the_references_own_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parsed(
        monkeypatch,
        "ppo --env PongNoFrameskip-v4 --study ppo-carnival --storage "
        "sqlite:///ppo-carnival.db --trial-steps 500000 --n-trials 100 --warmup-trials "
        "3 --preprocess --n-envs 16 32 --lr 1e-5 1e-2 --opt-epsilon 1e-7 1e-4 --gamma "
        "0.9 0.999 --entropy-coef 0.01 0.2 --n-steps 16 32 64 128 --lam 0.7 0.99",
    )
    assert plan.fixed == {"env": "PongNoFrameskip-v4", "preprocess": True}
    assert plan.spaces == {
        "n_envs": categorical(16, 32),
        "lr": log_uniform(1e-5, 1e-2),
        "opt_epsilon": log_uniform(1e-7, 1e-4),
        "gamma": log_uniform(0.9, 0.999),
        "entropy_coef": log_uniform(0.01, 0.2),
        "n_steps": categorical(16, 32, 64, 128),
        "lam": log_uniform(0.7, 0.99),
    }
    assert plan.config == TuneConfig(
        study="ppo-carnival",
        storage="sqlite:///ppo-carnival.db",
        trial_steps=500_000,
        n_trials=100,
        warmup_trials=3,
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@host/x",
        "mysql+pymysql://me:secret@host:3306/x?charset=utf8",
        "postgresql://host/x?user=me&password=secret",
        "mysql://me@host/x?passwd=secret",
        "mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3Dsecret",
        "postgresql://me:secret@host:port/x",
    ],
)
def test_a_password_is_kept_out_of_a_processs_arguments(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused as a flag, and taken from the environment and from Python."""
    words = ["ppo", "--env", "CartPole-v1", "--lr", "1e-4", "1e-3"]
    assert cli.run(["tune", *words, "--storage", url]) == 2
    said = capsys.readouterr().err
    assert "has a password" in said and "secret" not in said and said.count("\n") == 1
    monkeypatch.setenv("XAGENTS_RAY_STORAGE", url)
    plans: list[Plan] = []
    monkeypatch.setattr(
        tuning, "run_sweep", lambda row, given, _: plans.append(plan_of(row, given)[0])
    )
    given = {"env": "CartPole-v1", "lr": [1e-4, 1e-3]}
    for more in ({}, {"storage": None}, {"storage": "sqlite:///a.db"}):
        tuning.tune_with(ALGORITHMS["ppo"], {**given, **more})
    assert [plan.storage for plan in plans] == [url, url, "sqlite:///a.db"]
    monkeypatch.delenv("XAGENTS_RAY_STORAGE")
    tuning.tune_with(ALGORITHMS["ppo"], {**given, "storage": url})
    assert plans[-1].storage == url


@pytest.mark.parametrize(
    "url", ["sqlite:///a:b@c.db", "postgresql://me@host/x", "mysql://h/x?passfile=a"]
)
def test_a_database_without_a_password_may_be_a_flag(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"ppo --env CartPole-v1 --lr 1e-4 1e-3 --storage {url}"
    assert parsed(monkeypatch, words).storage == url


FRAMES = {"preprocess": True, "max_frame": True}


@pytest.mark.parametrize(
    ("words", "fixed", "spaces"),
    [
        ("--preprocess --max-frame", FRAMES, {}),
        ("--preprocess --max-frame --n-env 4", {**FRAMES, "n_envs": 4}, {}),
        ("--max-frame false", {"max_frame": False}, {}),
        ("--max-frame true false", {}, {"max_frame": categorical(True, False)}),
        ("--optimizer adam rmsprop", {}, {"optimizer": categorical("adam", "rmsprop")}),
        ("--weights a.tf --lr 0.1", {"weights": ("a.tf",), "lr": 0.1}, {}),
    ],
)
def test_values_of_flags(
    words: str,
    fixed: dict[str, Any],
    spaces: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = parsed(monkeypatch, f"ppo --env CartPole-v1 {words}")
    found = {k: v for k, v in plan.fixed.items() if k != "env"}
    if "weights" in fixed:
        fixed = {**fixed, "weights": (str(Path("a.tf").resolve()),)}
    assert (found, plan.spaces) == (fixed, spaces)


def shown(width: int, live: bool, **more: Any) -> tuple[SweepDisplay, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=live, width=width, highlight=False)
    config = TuneConfig(n_trials=4, n_jobs=2, **more)
    rows = [TrialRow(0, {"lr": 1e-3}, "complete", 1000, 200.0, 30.0)]
    return SweepDisplay(config, DisplayConfig(), rows, console), text


def test_the_live_table() -> None:
    display, text = shown(100, True)
    with display:
        display.began(1, {"lr": 0.000123456})
        display.progress(1, 512, 20.5)
        display.began(2, {"lr": 0.5})
        display.ended(2, "failed", reason="the learning rate was too high")
    out = text.getvalue()
    for part in ("running", "512", "20.50", "0.000123", "200.00", "complete"):
        assert part in out
    assert "Trial 2 failed: the learning rate was too high" in out
    assert "2 of 4 trials ended, best: 200.00 of trial 0, about 0:00:30 left" in out


def test_a_training_that_a_signal_ends_has_no_value(signals: Signals) -> None:
    def stop() -> list[float]:
        signals.press(signal.SIGTERM)
        return [5]

    reports: list[Report] = []
    row, driver = cloudpickle.dumps(ALGORITHMS["ppo"]), FakeDriver([[5], stop])
    supervisor, settings = (
        Supervisor(reports.append, signals),
        {**SETTINGS, "quiet": True},
    )
    result = train_trial(supervisor, row, settings, 1, (), (), lambda *_: driver)
    assert reports[-1].mean_reward == 5.0
    assert end_of_trial(Outcome(result)) == {
        "value": None,
        "failure": "Stopped by SIGTERM",
        "traceback": "",
    }


def test_plain_lines_where_nobody_sees_a_table() -> None:
    display, text = shown(100, False)
    with display:
        display.ended(9, "interrupted")  # the database broke before it was shown
    assert text.getvalue() == "Trial 9 interrupted, steps: 0, reward: -\n"
    display, text = shown(100, False)
    with display:
        display.began(1, {"lr": 0.25, "n_envs": 8})
        display.progress(1, 512, None)
        display.ended(1, "pruned", 10.0)
        display.show()
    assert text.getvalue() == (
        "Trial 1 pruned, steps: 512, reward: -, lr: 0.25, n_envs: 8\n"
    )


def test_what_a_sweep_leaves() -> None:
    plan = planned(lr=(1e-5, 1e-2), n_envs=(4, 8), quiet=True)
    style = dict(matplotlib.rcParams)
    study, said = reported(plan, 10.0, 30.0, 20.0)
    assert dict(matplotlib.rcParams) == style
    best = study.best()
    assert best is not None
    words = next(line for line in said if "--n-envs" in line).split()
    assert words[words.index("--lr") + 1] == str(best.params["lr"])
    assert words[words.index("--max-steps") + 1] == "1000"
    written = yaml.safe_load((plan.directory / "best.yaml").read_text("utf-8"))
    assert written["settings"]["lr"] == best.params["lr"]
    assert "quiet" not in written["settings"]
    for name in ("history.png", "importances.png", "parallel.png"):
        data = (plan.directory / name).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) > 5_000


def test_a_warm_up_as_long_as_a_trial_is_refused() -> None:
    with pytest.raises(UserError, match=r"--warmup-steps 1000 .* --scheduler none"):
        planned(warmup_steps=1000)
    for scheduler in ("none", "asha"):  # which don't read it
        planned(warmup_steps=1000, scheduler=scheduler)


def test_one_trial_leaves_no_pictures() -> None:
    plan = planned()
    _, said = reported(plan, 1.0)
    assert said[-1].startswith("Pictures need 2 complete trials")
    assert not list(plan.directory.glob("*.png"))
