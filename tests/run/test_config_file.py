"""Settings from a YAML file: a user's own, or the one that each run writes."""

import shutil
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml
from checkout import ROOT
from fake_driver import FakeDriver
from sessions import RUN, train

import xagents_ray
from xagents_ray.algorithms import presets
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands import all_commands, cli, shortcuts
from xagents_ray.commands import tune as tuning
from xagents_ray.core.errors import UserError
from xagents_ray.run.config_file import chosen_algorithm, with_config
from xagents_ray.run.request import Request
from xagents_ray.settings.config import Config, train_options
from xagents_ray.storage.run_directory import RunDirectory

PPO = find_algorithm("ppo")
STORED = sorted((ROOT / "tests/data").glob("*/trained/*/*/*/config.yaml"))
FLAT = """\
agent: ppo
env: CartPole-v1
env_kwargs: {max_episode_steps: 99}
max_steps: 100k
n_envs: 4
lr: 3e-4
jit: off
seed: 7
"""
SECTIONS = """\
agent: ppo
env: {env: CartPole-v1, env_kwargs: {max_episode_steps: 99}, n_envs: 4}
training: {max_steps: 100k, seed: 7}
run:
placement: {jit: off}
algorithm: {lr: 3e-4}
"""
EXPECTED = {
    "env": "CartPole-v1",
    "env_kwargs": ("max_episode_steps=99",),
    "max_steps": 100_000,
    "n_envs": 4,
    "lr": 3e-4,
    "jit": "off",
    "seed": 7,
    "config": "run.yaml",
}


def own(text: str, **given: Any) -> dict[str, Any]:
    """Return settings for PPO with those of a file."""
    Path("run.yaml").write_text(text)
    return with_config(PPO, {"config": "run.yaml", **given})


def of_run(**settings: Any) -> Path:
    """Write the directory of a run; return the path of its settings."""
    values = Config.of(PPO.config, {"env": "CartPole-v1", "max_steps": 9, **settings})
    run = RunDirectory.create("runs", "ppo", "CartPole-v1", "first", 1)
    run.begin("ppo", 1, values.groups(), {})
    return run.path / "config.yaml"


@pytest.mark.parametrize("text", [FLAT, SECTIONS], ids=["flat", "sections"])
def test_a_file_has_settings_in_sections_or_without(text: str) -> None:
    settings = own(text)
    assert settings == EXPECTED
    assert Request.of(PPO, settings).config.values().items() >= EXPECTED.items()
    assert chosen_algorithm(None, Path("run.yaml")) is PPO


def test_what_precedes_what() -> None:
    """A default, a preset, a file, the user's own; each from the next one."""
    text = "env: CartPole-v1\npreset: auto\ngamma: 0.5\nlam: 0.5\n"
    config = Request.of(PPO, own(text, gamma=0.25)).config
    preset = presets.named_preset("ppo", "CartPole-v1", "auto").settings
    assert config.algorithm.gamma == 0.25
    assert config.values()["lam"] == 0.5 != preset["lam"]
    assert config.values()["n_steps"] == preset["n_steps"] != PPO.config.n_steps
    assert config.values()["beta1"] == PPO.config.beta1
    assert config.run.preset == "auto"
    named = own(text, preset=None)
    assert Request.of(PPO, {**named, "max_steps": 9}).config.run.preset is None


@pytest.mark.parametrize(
    "path", STORED, ids=lambda path: "-".join(path.relative_to(ROOT).parts[2:5])
)
def test_the_file_of_any_run_makes_another_one(path: Path) -> None:
    """Its settings are those of the run, but for what belongs to that one alone."""
    agent, values = RunDirectory(path.parent).settings()
    algorithm = chosen_algorithm(None, path)
    assert algorithm.name == agent
    shutil.copy(path, "again.yaml")  # without the networks beside it
    for named in (path, "again.yaml"):
        given = with_config(algorithm, {"config": named, "local": True})
        config = Request.of(algorithm, given).config.values()
        known = train_options(algorithm.config)
        alone = {each.name for each in known if each.of_one_run or each.is_path}
        assert config["seed"] == values["seed"] is not None
        assert config["config"] == Path(named).name
        assert (config["name"], config["run_dir"]) == (None, "runs")
        assert config["checkpoints"] is None
        same = values.keys() - alone - {"local"}
        assert {n: config[n] for n in same} == {n: values[n] for n in same}


def test_a_run_has_its_own_name_directory_and_files() -> None:
    path = of_run(
        name="first",
        run_dir="elsewhere",
        checkpoints=("a.npz",),
        seed=3,
        n_envs=2,
        history_checkpoint="a.parquet",
        preset="auto",
        weights=("b.npz",),
    )
    settings = with_config(PPO, {"config": path, "name": "second"})
    assert settings["name"] == "second"
    assert (settings["seed"], settings["n_envs"]) == (3, 2)
    assert settings["weights"] == ("b.npz",)
    others = {"run_dir", "checkpoints", "history_checkpoint", "preset", "resume"}
    assert not others & settings.keys()
    assert None not in settings.values()
    assert Request.of(PPO, settings).notes == []  # none that there is a preset


def test_a_network_is_found_beside_a_file_and_in_a_run() -> None:
    Path("nets").mkdir()
    Path("nets/run.yaml").write_text("model: a.cfg\nweights: [w.npz, m:f]\n")
    settings = with_config(PPO, {"config": "nets/run.yaml"})
    assert settings["model"] == "nets/a.cfg"
    assert settings["weights"] == ("nets/w.npz", "m:f")
    path = of_run(model="b.cfg")
    assert with_config(PPO, {"config": path})["model"] == "b.cfg"
    copy = path.with_name("model.cfg")
    copy.touch()
    assert with_config(PPO, {"config": path})["model"] == str(copy)
    shutil.copy(path, "again.yaml")
    Path("model.cfg").touch()  # of nobody
    assert with_config(PPO, {"config": "again.yaml"})["model"] == "b.cfg"


def test_what_is_given_rules_out_what_a_file_says() -> None:
    text = f"{FLAT}n_actors: 2\npreprocess: true\nmax_frame: true\n"
    assert "n_actors" not in own(text, local=True)
    assert own(text)["n_actors"] == 2
    assert not {"env_kwargs", "vectorization"} & own(text, env="Acrobot-v1").keys()
    assert own(text, env="CartPole-v1")["env_kwargs"] == EXPECTED["env_kwargs"]
    assert "seed" not in own(text, seeds=[1, 2])
    assert own("seeds: [1, 2]")["seeds"] == (1, 2)
    assert own("seeds: [1, 2]", seed=3) == {"seed": 3, "config": "run.yaml"}
    assert own(text)["max_frame"] is True
    assert "max_frame" not in own(text, preprocess=False)
    alone = own("env: CartPole-v1\nmax_steps: 9\nmax_frame: true\n", lr=0.1)
    with pytest.raises(UserError, match="--max-frame has no effect without"):
        Request.of(PPO, alone)


def test_a_run_may_end_elsewhere_than_it_began() -> None:
    path = of_run(local=True, n_envs=4)
    assert with_config(PPO, {"config": path})["local"] is True
    assert "local" not in with_config(PPO, {"config": path, "n_actors": 2})


def test_null_is_no_value() -> None:
    text = "env: CartPole-v1\npreset: auto\nmax_steps: null\ntarget_reward: 9\n"
    text += "lr_decay: false\nclip_decay: false\n"
    assert Request.of(PPO, own(text)).config.training.max_steps is None
    with pytest.raises(UserError, match=r"run\.yaml: --lam takes a number, got None"):
        own("lam: null")


def test_all_mistakes_of_a_file_are_said() -> None:
    text = "lrr: 1\nlam: fast\ntrainig: {seed: 1}\nher: future\ncheckpoints: a.npz\n"
    with pytest.raises(UserError) as error:
        own(f"{text}config: b.yaml\n", gamma=1)
    lines = str(error.value).splitlines()
    assert all(line.startswith("--config run.yaml: ") for line in lines)
    assert [line.removeprefix("--config run.yaml: ") for line in lines] == [
        "There is no setting 'lrr'; did you mean lr?",
        "--lam takes a number, got 'fast'.",
        "There is no section 'trainig'; did you mean training?",
        "ppo has no setting her, which is one of ddpg, dqn, sac, td3: leave it out.",
        "--checkpoints can't be part of a file: give it as a flag.",
        "--config can't be part of a file: give it as a flag.",
    ]


def test_a_files_agent_stands_for_one_on_the_command_line() -> None:
    Path("run.yaml").write_text(FLAT)
    complete = shortcuts.with_preset_of
    assert complete(["--config", "run.yaml"]) == ["ppo", "--config", "run.yaml"]
    words = ["--lr", "1", "--config=run.yaml"]
    assert complete(words) == ["ppo", *words]
    assert shortcuts.with_agent_of_config(words) == ["ppo", *words]
    Path("run.yaml").write_text("env: CartPole-v1\n")
    with pytest.raises(UserError, match="names no agent: add a line such as `agent"):
        complete(["--config", "run.yaml"])
    for words in (["--config"], ["--config", "--lr", "1"], ["--config="]):
        with pytest.raises(UserError, match="--config is empty: name a file, or leave"):
            complete(words)
    for words in (["a2c", "--config", "run.yaml"], ["--lr", "1"], []):
        assert complete(words) == words


def test_a_file_that_is_not_there_is_looked_for_beside_it() -> None:
    Path("runs").mkdir()
    Path("runs/first.yaml").touch()
    for named in ("runs/frist.yaml", "runs/first.yml"):
        with pytest.raises(UserError, match=r"; did you mean runs/first\.yaml\?$"):
            with_config(PPO, {"config": named})
    with pytest.raises(UserError, match="; name a YAML file of settings, such as"):
        with_config(PPO, {"config": "runs/other.yaml"})


def test_the_runs_of_a_file_are_those_of_its_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        all_commands, "_train_seeds", lambda _, given: asked.append(given["seeds"])
    )
    Path("run.yaml").write_text("agent: ppo\nseeds: [1, 2]\n")
    with pytest.raises(AttributeError):  # there is no result
        cli.run(["train", "--config", "run.yaml"])
    assert asked == [(1, 2)]


def test_a_sweep_has_the_settings_that_its_trials_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, Any]] = []

    def asks(_: Any, given: dict[str, Any], __: Any) -> Any:
        asked.append(given)
        raise UserError("enough")

    monkeypatch.setattr(tuning, "run_sweep", asks)
    path = of_run(lr=0.1, n_envs=2, local=True, target_reward=9.0, seed=3)
    words = ["--config", str(path), "--gamma", "0.9", "0.99", "--address", "auto"]
    assert cli.run(["tune", *words]) == 2
    (given,) = asked
    assert (given["lr"], given["n_envs"], given["seed"]) == (0.1, 2, 3)
    assert given["gamma"] == (0.9, 0.99) and given["config"] == "config.yaml"
    assert (given["local"], given["address"]) == (True, "auto")
    assert not {"max_steps", "target_reward", "name"} & given.keys()
    Path("sweep.yaml").write_text("agent: ppo\nlr: [1e-4, 1e-2]\nn_trials: 3\n")
    with pytest.raises(UserError, match="enough"):
        xagents_ray.tune(config="sweep.yaml", trial_steps=9)
    assert asked[-1] == {
        "lr": (1e-4, 1e-2),
        "n_trials": 3,
        "trial_steps": 9,
        "config": "sweep.yaml",
    }


def test_a_resumed_run_keeps_the_names_of_its_preset_and_file() -> None:
    kept = {"preset": "auto", "config": "run.yaml", "name": "a"}
    train(FakeDriver([[1, 2]]), max_steps=2, **kept, weights=None)
    train(FakeDriver([[3, 4]]), resume=str(RUN), max_steps=4, preset=None)
    stored = yaml.safe_load((RUN / "config.yaml").read_text())
    assert kept.items() <= stored["run"].items()
    assert stored["run"]["resume"] == str(RUN)


def test_a_run_from_a_file_says_which_one() -> None:
    Path("nets").mkdir()
    text = f"{FLAT.replace('100k', '64')}n_steps: 16\nlocal: true\nquiet: true\n"
    Path("nets/run.yaml").write_text(text)
    words = ["-m", "xagents_ray", "train", "--config", "nets/run.yaml", "--set"]
    done = forked.run([*words, "name=b", "n_envs=2", "target_reward=null"], 120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    stored = yaml.safe_load(Path("runs/ppo/CartPole-v1/b/config.yaml").read_text())
    assert stored["run"]["config"] == "run.yaml"
    assert stored["algorithm"]["lr"] == 3e-4
    assert (stored["env"]["n_envs"], stored["training"]["seed"]) == (2, 7)
