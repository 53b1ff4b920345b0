"""Presets: settings below the user's own, from the package or from a file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from xagents_ray.algorithms.presets import Preset, all_presets, apply
from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm
from xagents_ray.commands import cli
from xagents_ray.core.errors import UserError
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

PPO = find_algorithm("ppo")
CARTPOLE = {"env": "CartPole-v1", "preset": "auto"}
ALL = [pytest.param(p, id=f"{p.agent}-{p.env}-{p.name}") for p in all_presets()]


@pytest.mark.parametrize("preset", ALL)
def test_every_preset_makes_a_run(preset: Preset) -> None:
    """Its settings exist, are within their bounds, and its networks fit."""
    module, colon, _ = preset.env.partition(":")
    if colon:
        pytest.importorskip(module)
    row = find_algorithm(preset.agent)
    assert preset.expected and preset.source
    rewards = preset.expected.partition(" after ")[0].split(", ")
    assert len(rewards) < 3 or len(set(rewards)) > 1, "say it once"
    assert "max_steps" in preset.settings
    env = {"*NoFrameskip-v4": "SpaceInvadersNoFrameskip-v4", "ALE/*-v5": "ALE/Pong-v5"}
    given = {"env": env.get(preset.env, preset.env), "preset": preset.name}
    settings = apply(row, given)
    assert settings.items() >= preset.settings.items()
    config = Config.of(row.config, settings)
    assert prepare_run(row, config).layouts


SEVERAL_STEPS = [each for each in ALL if "n_step" in each.values[0].settings]


@pytest.mark.parametrize("preset", SEVERAL_STEPS)
def test_a_preset_of_several_steps_takes_one_step(preset: Preset) -> None:
    """Nothing in it is for several steps only, which a user could not leave out."""
    row = find_algorithm(preset.agent)
    given = {"env": preset.env, "preset": preset.name, "n_step": 1}
    assert Config.of(row.config, apply(row, given)).algorithm.replay is not None


def test_presets_are_distinct() -> None:
    """No two of an agent and a name fit the same environment; every agent has some."""
    names = [(preset.agent, preset.env, preset.name) for preset in all_presets()]
    assert len(names) == len(set(names))
    assert {agent for agent, _, name in names if name == "auto"} == set(ALGORITHMS)


def test_a_name_chooses_another_preset() -> None:
    given = {"env": "CartPole-v1", "preset": "rainbow"}
    settings = apply(find_algorithm("dqn"), given)
    parts = {"double", "dueling", "distributional", "prioritized"}
    assert all(settings[part] is True for part in parts)
    assert (settings["noisy"], settings["n_step"] > 1) == ("factorised", True)
    with pytest.raises(UserError, match="no preset rainbow of dqn for Acrobot-v1"):
        apply(find_algorithm("dqn"), {**given, "env": "Acrobot-v1"})
    with pytest.raises(UserError, match="--preset rainbow: No such file"):
        apply(PPO, given)
    with pytest.raises(UserError, match="did you mean rainbow"):
        apply(find_algorithm("dqn"), {**given, "preset": "rainbo"})


def test_the_presets_for_a_gpu_say_that_they_are_untried() -> None:
    """They have many environments and large minibatches, and claim no result."""
    found = [preset for preset in all_presets() if preset.name == "gpu"]
    assert {preset.env for preset in found} == {"*NoFrameskip-v4", "ALE/*-v5"}
    for preset in found:
        assert preset.expected == "not known" and "not run here" in preset.source
        settings = preset.settings
        assert settings["n_envs"] >= 128
        rows = settings["n_envs"] * settings["n_steps"]
        assert rows // settings["mini_batches"] >= 2_048
    pong = apply(PPO, {"env": "PongNoFrameskip-v4", "preset": "gpu"})
    assert (pong["n_envs"], pong["policy_lag"]) == (128, 1)


def test_given_settings_override() -> None:
    plain, own = apply(PPO, CARTPOLE), apply(PPO, {**CARTPOLE, "n_envs": 3})
    assert plain["n_envs"] == 8
    assert own == {**plain, "n_envs": 3}
    assert apply(PPO, {"env": "CartPole-v1"}) == {"env": "CartPole-v1"}


def test_settings_without_effect_are_left_out_of_a_preset() -> None:
    dqn = find_algorithm("dqn")
    plain = apply(dqn, CARTPOLE)
    noisy = apply(dqn, {**CARTPOLE, "noisy": "factorised"})
    assert plain.keys() - noisy.keys() == {"epsilon_end", "epsilon_decay_steps"}
    ladder = apply(dqn, {**CARTPOLE, "epsilon_ladder": True})
    assert plain.keys() - ladder.keys() == {"epsilon_decay_steps"}
    trpo = apply(find_algorithm("trpo"), {**CARTPOLE, "critic_lr": 0.1})
    assert "lr" not in trpo


@pytest.mark.parametrize(
    ("agent", "given", "said"),
    [
        (
            "dqn",
            {"noisy": "factorised", "epsilon_end": 0.1},
            "--epsilon-end .* --noisy",
        ),
        (
            "dqn",
            {"preset": "rainbow", "epsilon_decay_steps": 10},
            "--epsilon-decay-steps has no effect with --noisy: drop one of them",
        ),
        (
            "dqn",
            {"epsilon_ladder": True, "epsilon_start": 0.5},
            "--epsilon-start .* --epsilon-ladder",
        ),
        (
            "ppo",
            {"decoupled_loss": True, "replay_ratio": 1.0},
            "--decoupled-loss .* --replay-ratio",
        ),
        ("a2c", {"model": "a.cfg", "feature_maker": "b:c"}, "--model .*-maker: drop"),
        (
            "ppo",
            {"normalize_advantages": False, "advantage_epsilon": 0.1},
            "--advantage-epsilon .* without --normalize-advantages",
        ),
        (
            "a2c",
            {"plateau_reduce_patience": 3},
            "--plateau-reduce-patience .* without --divergence-monitoring-steps",
        ),
        ("acer", {"trust_region": False, "delta": 2.0}, "--delta .*--trust-region"),
        ("acer", {"kl_weight": 0.1, "delta": 2.0}, "--delta .* with --kl-weight"),
        (
            "acer",
            {"trust_region": False, "ema_alpha": 0.9},
            "--ema-alpha .* without --trust-region or --kl-weight: add one of them",
        ),
    ],
)
def test_settings_without_effect_are_refused(
    agent: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        apply(find_algorithm(agent), {"env": "CartPole-v1", **given})
    harmless = {name: value for name, value in given.items() if name == "preset"}
    assert apply(find_algorithm(agent), {"env": "CartPole-v1", **harmless})


@pytest.mark.parametrize("average", [{}, {"trust_region": False, "kl_weight": 0.1}])
def test_acer_averages_its_policy_for_either_constraint(
    average: dict[str, Any],
) -> None:
    given = {"env": "CartPole-v1", "ema_alpha": 0.9, **average}
    assert apply(find_algorithm("acer"), given)["ema_alpha"] == 0.9


def test_an_own_file(tmp_path: Path) -> None:
    network = tmp_path / "small.cfg"
    network.write_text("[dense-0]\nunits=8\noutput=1\n[dense-1]\noutput=1\n")
    file = tmp_path / "own.yaml"
    settings: dict[str, Any] = {"n_envs": 3, "lr_decay": True, "model": "small.cfg"}
    settings["weights"] = ["a.npz"]  # as `tune` writes several values
    file.write_text(yaml.safe_dump({"env": "ignored", "settings": settings}))
    found = apply(PPO, {"env": "CartPole-v1", "preset": str(file), "n_envs": 5})
    assert found["model"] == str(network)
    assert (found["n_envs"], found["lr_decay"]) == (5, True)
    config = Config.of(PPO.config, {**found, "max_steps": 1})
    assert config.run.weights == ("a.npz",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("settings: {seeds: [1, 2]}", "--seeds can't be part of a preset: give it"),
        ("settings: {callbacks: [a:B]}", "--callbacks can't be part of a preset"),
        ("settings: {max_steps: 9}\nname: !!int x", "is not YAML: write"),
        ("settings: {lr: 0.1, lr: 0.2}", "it has 'lr' twice; write"),
    ],
)
def test_a_file_that_cannot_be_a_preset(
    content: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(content)
    with pytest.raises(UserError, match=said):
        apply(PPO, {"env": "CartPole-v1", "preset": str(file)})


def test_files_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "settings: {n_envs: 3, model: ~/small.cfg}"
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    settings = apply(find_algorithm("ppo"), {**CARTPOLE, "preset": "~/mine.yaml"})
    assert settings["n_envs"] == 3
    assert settings["model"] == f"{tmp_path}/small.cfg"


def test_no_network_in_a_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("settings: {model: null}")
    assert apply(PPO, {"env": "CartPole-v1", "preset": str(file)})["model"] is None


@pytest.mark.parametrize("number", ["3e-4", "3E-04", "3.e-4", "3.0e-4", "+.3e-3"])
def test_numbers_as_the_command_line_takes_them(number: str, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"settings: {{lr: {number}}}")
    found = apply(PPO, {"env": "CartPole-v1", "preset": str(file)})
    assert found["lr"] == pytest.approx(3e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x00", "is not YAML"),
        ("settings: 3", "has no settings"),
        ("settings: {1: 2}", "has no settings"),
        ("- settings", "has no settings"),
        ("settings: {learning_rate: 1.0e-3}", "There is no setting 'learning_rate'"),
        (
            "settings: {lr: fast}",
            r"own\.yaml: --lr takes a number, or a schedule such as .*, got 'fast'",
        ),
        ("settings: {n_envs: many}", r"own\.yaml: --n-envs takes a whole number"),
        ("settings: {lr: 1}\nsettings: {n_envs: 0}", "it has 'settings' twice"),
    ],
)
def test_damaged_files(text: str, said: str) -> None:
    Path("own.yaml").write_text(text)
    given = {"env": "CartPole-v1", "max_steps": 1, "preset": "own.yaml"}
    with pytest.raises(UserError, match=said) as error:
        Config.of(PPO.config, apply(PPO, given))
    assert "\n" not in str(error.value)


def test_no_preset() -> None:
    with pytest.raises(UserError, match=r"did you mean Acrobot-v1\?"):
        apply(PPO, {"env": "Acrobat-v1", "preset": "auto"})
    with pytest.raises(UserError, match="--preset takes text, got 5"):
        apply(PPO, {"env": "CartPole-v1", "preset": 5})


def test_the_command_lists_them(capsys: Any) -> None:
    assert cli.run(["presets"]) == 0
    out = capsys.readouterr().out
    for preset in all_presets():
        assert any(
            f" {preset.agent} " in line and f" {preset.env} " in line
            for line in out.splitlines()
        )
    assert cli.run(["presets", "trpo"]) == 0
    out = capsys.readouterr().out
    assert " trpo " in out and " ppo " not in out
    assert cli.run(["presets", "tpro"]) == 2
    assert "did you mean trpo" in capsys.readouterr().err


def test_the_command_prints_one_as_a_file(capsys: Any, tmp_path: Path) -> None:
    """Each one, read as `--preset FILE`, has the settings of `--preset` alone."""
    for preset in all_presets():
        assert cli.run(["presets", preset.agent, preset.env, preset.name]) == 0
        file = tmp_path / "own.yaml"
        file.write_text(capsys.readouterr().out)
        row, env = find_algorithm(preset.agent), preset.env
        given = apply(row, {"env": env, "preset": preset.name})
        read = apply(row, {"env": env, "preset": str(file)})
        assert {**read, "preset": preset.name} == given, preset
    assert cli.run(["presets", "ppo", "CartPole-v3"]) == 2
    assert "did you mean CartPole-v1?" in capsys.readouterr().err
    assert cli.run(["presets", "ppo", "CartPole-v1", "rainbow"]) == 2
    assert "no preset rainbow of ppo" in capsys.readouterr().err


def test_a_preset_is_kept_with_the_run(train: Any, tmp_path: Path) -> None:
    """The run has its settings as if they had been given; resuming needs no preset."""
    given = {"preset": "auto", "local": True, "name": "a", "run_dir": str(tmp_path)}
    done = train("ppo", env="CartPole-v1", max_steps=300, seed=1, **given)
    stored = yaml.safe_load(Path(done["directory"], "config.yaml").read_text())
    assert stored["algorithm"]["n_steps"] == 32
    assert (stored["env"]["n_envs"], stored["training"]["max_steps"]) == (8, 300)
    more = train("ppo", resume=done["directory"], max_steps=600, local=True)
    assert more["env_steps"] >= 600
    words = ["train", "ppo", "--resume", done["directory"], "--preset", "--local"]
    assert cli.run(words) == 2
