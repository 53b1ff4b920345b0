"""Settings: each is bounded, and written once."""

import ast
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import tree_of

import xagents_ray
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import GROUPS, Config, train_options
from xagents_ray.settings.options import Option, options
from xagents_ray.settings.resources import PlacementConfig
from xagents_ray.settings.run import RunConfig
from xagents_ray.settings.training import EnvConfig, TrainingConfig
from xagents_ray.tuning.plan import TuneConfig

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for room in ("xagents_ray", "actors", "learners", "cluster")
    for path in (ROOT / room).rglob("*.py")
)
GROUPED = [*GROUPS.values(), TuneConfig]
CONFIGS = [*GROUPED, *(row.config for row in ALGORITHMS.values())]
OPTIONS = [
    pytest.param(config, option, id=f"{config.__name__}.{option.name}")
    for config in CONFIGS
    for option in options(config)
]
ENOUGH = {"env": "CartPole-v1", "max_steps": 100}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, tree_of(path)


def refused(config: type, name: str, value: Any) -> str:
    with pytest.raises(UserError) as error:
        config(**{name: value})
    return str(error.value)


def typed(option: Option, number: float) -> Any:
    """Return a number as the option's value."""
    return (option.type(number),) if option.many else option.type(number)


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_bounds(config: type, option: Option) -> None:
    tiny = 1 if option.type is int else 1e-9
    low, high = option.low, option.high
    if low is not None:
        below = low if option.exclusive else low - tiny
        message = refused(config, option.name, typed(option, below))
        assert message.startswith(f"{option.flag} must be {option.bounds}, got ")
        option.check(typed(option, low + tiny if option.exclusive else low))
    if high is not None:
        above = high + max(tiny, 1e-6)
        message = refused(config, option.name, typed(option, above))
        assert message.startswith(f"{option.flag} must be {option.bounds}, got ")
        option.check(typed(option, high))


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_types(config: type, option: Option) -> None:
    wrong: list[Any] = [[1], b"1"]
    if option.type is not str:
        wrong += ["many", "1"]
    if option.type in (int, float):
        wrong += [True, math.nan, math.inf, -math.inf]
    if option.type is int:
        wrong += [1.5]
    if option.type in (bool, str) and option.takes != "float":
        wrong += [1, 0, 0.5]
    if option.default is not None:
        wrong.append(None)
    for value in wrong:
        message = refused(config, option.name, value)
        assert option.flag in message and message.endswith(f"got {value!r}.")


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_choices(config: type, option: Option) -> None:
    if option.type is str and option.choices:
        message = refused(config, option.name, "something")
        assert all(choice in message for choice in option.choices)
        for choice in option.choices:
            config(**{option.name: choice})
    elif option.type is str and option.default is None:
        config(**{option.name: None})


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_defaults_are_allowed(config: type, option: Option) -> None:
    option.check(option.default)
    assert getattr(config(), option.name) == option.default


def test_true_stands_for_a_flag_alone() -> None:
    preset, her = RunConfig(preset=True).preset, DDPGConfig(her=True).her  # type: ignore[arg-type]
    assert (preset, her) == ("auto", "future")
    assert RunConfig(preset=False).preset is None  # type: ignore[arg-type]


def test_whole_floats_values_of_numpy_and_paths() -> None:
    given = {
        "env": np.str_("CartPole-v1"),
        "n_envs": np.int64(4),
        "max_steps": 1e5,
        "lr": np.float32(0.5),
        "local": np.bool_(True),
        "model": Path("net.cfg"),
        "weights": Path("a.tf"),
    }
    config = Config.of(PPOConfig, given)
    values = (
        config.env.env,
        config.env.n_envs,
        config.training.max_steps,
        config.algorithm.lr,
        config.placement.local,
        PPOConfig(model=given["model"]).model,
        config.run.weights,
    )
    assert values == ("CartPole-v1", 4, 100_000, 0.5, True, "net.cfg", ("a.tf",))
    kinds = [str, int, int, float, bool, str, tuple]
    assert [type(value) for value in values] == kinds
    weights = [RunConfig(weights=x).weights for x in ("a.tf", ("a.tf", Path("b.tf")))]
    assert weights == [("a.tf",), ("a.tf", "b.tf")]


@pytest.mark.parametrize("value", [np.float64(1.5), np.nan, np.array(3), np.str_("3")])
def test_other_numbers_of_numpy_are_refused(value: Any) -> None:
    with pytest.raises(UserError, match="--n-envs takes a whole number"):
        EnvConfig(n_envs=value)


@pytest.mark.parametrize(("text", "value"), [("1e5", 100_000), ("2.0", 2), ("7", 7)])
def test_whole_numbers_as_they_are_typed(text: str, value: int) -> None:
    (option,) = (o for o in options(TrainingConfig) if o.name == "max_steps")
    assert option.parse(text) == value and type(option.parse(text)) is int
    for wrong in ("1.5", "1e-5", "inf", "1e999", "many"):
        with pytest.raises(UserError, match=f"got '{wrong}'"):
            option.parse(wrong)


def test_huge_numbers_are_refused() -> None:
    """More digits than an int64 of TensorFlow holds, or a float."""
    assert TrainingConfig(max_steps=10**18).max_steps == 10**18
    for value in (2**63, 10**400, 10**5_000):
        with pytest.raises(UserError, match="takes a whole number, got "):
            TrainingConfig(max_steps=value)


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_what_an_option_says(config: type, option: Option) -> None:
    assert option.help and not option.help.endswith(".")
    assert option.flag == f"--{option.name.replace('_', '-')}"
    assert option.type in (bool, int, float, str)
    assert option.hp_type in (None, "categorical", "int", "log_uniform")
    if option.hp_type == "int":
        assert option.type is int
    if option.hp_type == "log_uniform":
        assert option.type is float


def test_configs_are_frozen() -> None:
    for config in CONFIGS:
        made = config()
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, options(config)[0].name, 1)


def test_an_option_is_declared_once() -> None:
    """A group's in its class; an algorithm's is in its own class, but of one function.

    The class of an algorithm shows all its options, those that every one has too.
    """
    for config in GROUPED:
        owners = [
            name for c in config.__mro__ for name in vars(c).get("__annotations__", {})
        ]
        assert len(set(owners)) == len(owners), owners
    for row in ALGORITHMS.values():
        names = [o.name for c in (*GROUPED, row.config) for o in options(c)]
        assert len(names) == len(set(names))
        own = vars(row.config)["__annotations__"]
        assert [o.name for o in options(row.config) if o.name not in own] == []
    declared = [
        f"{node.name}.{each.target.id}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if path.parent.name == "algorithms" and isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if isinstance(each.value, ast.Call) and isinstance(each.value.func, ast.Name)
    ]
    names = [each.partition(".")[2] for each in declared]
    assert len(set(names)) == len(names) > 20, declared


def receiver(node: ast.expr) -> str:
    """Return the last name of what an attribute is read from."""
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id if isinstance(node, ast.Name) else ""


def is_none(default: ast.expr | None) -> bool:
    return default is None or ast.unparse(default) == "None"


def test_no_default_is_written_elsewhere() -> None:
    """No parameter with a field's name has a default; no `get` falls back to one."""
    names = {option.name for config in CONFIGS for option in options(config)}
    found = []
    for path, tree in trees():
        if path.parent.name == "compat":  # has those of xagents
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                a = node.args
                last = [*a.posonlyargs, *a.args][-len(a.defaults) or None :]
                pairs = [
                    *zip(last[: len(a.defaults)], a.defaults, strict=True),
                    *zip(a.kwonlyargs, a.kw_defaults, strict=True),
                ]
                found += [
                    (path.name, argument.arg)
                    for argument, default in pairs
                    # Gymnasium's `reset(seed=None)` is no default of ours.
                    if argument.arg in names and not is_none(default)
                ]
            elif isinstance(node, ast.Call) and receiver(node.func) in (
                "get",
                "getattr",
            ):
                known = [x.value for x in node.args if isinstance(x, ast.Constant)]
                if len(node.args) > 1 + (receiver(node.func) == "getattr"):
                    found += [(path.name, k) for k in known if k in names]
    assert found == []


def of(algorithm: type, **values: Any) -> Config:
    return Config.of(algorithm, {**ENOUGH, **values})


@pytest.mark.parametrize("gpus", [1.5, 0.00005])
def test_gpus_that_ray_cannot_reserve_are_refused(gpus: float) -> None:
    said = f"--learner-gpus {gpus:g} can't be reserved: give a part of one GPU"
    assert refused(PlacementConfig, "learner_gpus", gpus).startswith(said)
    for allowed in (0, 0.5, 1, 2):
        assert PlacementConfig(learner_gpus=allowed).learner_gpus == allowed


def test_values_reach_their_groups() -> None:
    config = of(PPOConfig, n_envs=3, n_steps=7, seed=4, quiet=True, local=True)
    assert (config.env.env, config.env.n_envs) == ("CartPole-v1", 3)
    assert config.algorithm == PPOConfig(n_steps=7)
    assert (config.training.seed, config.training.max_steps) == (4, 100)
    assert config.display.quiet and config.placement.local


def test_what_settings_derive_is_no_setting() -> None:
    config = of(PPOConfig)
    before = dict(config.groups()["algorithm"])
    assert config.algorithm.batch_steps and config.algorithm.replay is None
    assert config.groups()["algorithm"] == before


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("n_env", "n_envs"),
        ("nsteps", "n_steps"),
        ("learning_rate", "lr"),
        ("total_timesteps", "max_steps"),
        ("ent_coef", "entropy_coef"),
        ("max_step", "max_steps"),
        ("target_rewards", "target_reward"),
    ],
)
def test_unknown_names(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"no setting '{name}'") as error:
        of(PPOConfig, **{name: 1})
    assert f"did you mean {near}" in str(error.value)
    assert str(error.value)[-1] in ".?"


def test_a_name_of_another_library_stands_for_one_option() -> None:
    for row in ALGORITHMS.values():
        names = [o.name for o in train_options(row.config)]
        also = [word for o in train_options(row.config) for word in o.known_as]
        assert len({*names, *also}) == len(names) + len(also)


@pytest.mark.parametrize("call", [xagents_ray.train, xagents_ray.tune])
def test_settings_of_another_agent_name_it(call: Any) -> None:
    said = "ppo has no setting her, which is one of ddpg, dqn, sac, td3: leave it out."
    with pytest.raises(UserError) as error:
        call("ppo", env="CartPole-v1", her="future")
    assert str(error.value).splitlines()[0] == said
    with pytest.raises(UserError, match=r"^There is no setting 'entropy_coef'.* alpha"):
        call("sac", env="Pendulum-v1", entropy_coef=0.1)


@pytest.mark.parametrize("agent", ALGORITHMS)
def test_settings_of_stable_baselines3_without_a_flag(agent: str) -> None:
    given = {"env": "CartPole-v1", "max_steps": 100}
    with pytest.raises(UserError, match=r"verbose isn't .*, and quiet turns that"):
        xagents_ray.train(agent, **given, verbose=1)
    with pytest.raises(UserError, match=r"policy_kwargs isn't a setting.*for model, "):
        xagents_ray.train(agent, **given, policy_kwargs={})


@pytest.mark.parametrize("call", [xagents_ray.train, xagents_ray.tune])
def test_an_agent_is_given_by_its_name(call: Any) -> None:
    with pytest.raises(UserError, match=r"not as <class .*PPO'>: pass 'ppo'\.$"):
        call(xagents_ray.PPO, env="CartPole-v1")  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"not as 3: pass 'ppo'\.$"):
        call(3, env="CartPole-v1")


@pytest.mark.parametrize(("name", "value"), [("address", "a:1"), ("dashboard", True)])
def test_connections_are_for_runs_on_ray(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"--{name} applies only to runs on Ray: drop"):
        of(PPOConfig, local=True, **{name: value})


def test_as_many_minibatches_as_samples() -> None:
    """And no more."""
    assert of(PPOConfig, n_envs=2, n_steps=3, mini_batches=6)
    with pytest.raises(UserError, match=r"--mini-batches 7 is .* batch of 6 samples"):
        of(PPOConfig, n_envs=2, n_steps=3, mini_batches=7)


@pytest.mark.parametrize("name", ["buffer_initial_size", "buffer_batch_size"])
def test_a_buffer_holds_a_batch_and_its_initial_size(name: str) -> None:
    with pytest.raises(UserError, match="--buffer-max-size 100 is smaller than the "):
        DQNConfig(**{"buffer_max_size": 100, name: 101})


@pytest.mark.parametrize(
    ("size", "initial", "expected"), [(1000, None, 100), (1000, 7, 7), (35, None, 3)]
)
def test_initial_size(size: int, initial: int | None, expected: int) -> None:
    config = DQNConfig(buffer_max_size=size, buffer_initial_size=initial)
    assert config.initial_size == expected


def test_steps_of_a_rollout() -> None:
    assert PPOConfig(n_steps=9).batch_steps == 9
    assert DQNConfig(rollout_length=9).batch_steps == 9


def test_bounds_in_words() -> None:
    words = {o.name: o.bounds for o in options(PPOConfig)}
    assert words["gamma"] == "≥ 0 and ≤ 1"
    assert words["lr"] == "> 0"
    assert words["model"] == ""
    stack = next(o for o in options(EnvConfig) if o.name == "frame_stack")
    assert stack.bounds == "≥ 1 and ≤ 16"
