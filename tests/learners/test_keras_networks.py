"""Learners of networks that a user makes with Keras: the weights they begin with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import xagents_ray
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_models
from xagents_ray.networks.inputs import NetworkInputs
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.kinds import register_initializer
from xagents_ray.policy.model_weights import write_weights
from xagents_ray.run.learner_access import make_learner
from xagents_ray.run.prepare import (
    begin_in,
    new_directory,
    prepare_run,
    with_own_names,
)
from xagents_ray.settings.config import Config

LARGEST = 1e-3
"""Of a kernel here, so that its initializer is seen."""
layers = keras.layers


@keras.saving.register_keras_serializable("own critics")
class Scaled(layers.Layer):  # type: ignore[misc]
    """Says in its config nothing of how it draws."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=shape[-1:], initializer="normal")

    def call(self, x: Any) -> Any:
        return self.kernel * x


def critic(*between: Any, seed: int | None = None) -> Any:
    draw = keras.initializers.RandomUniform(-LARGEST, LARGEST, seed)
    given = keras.Input((4,))  # 3 numbers and an action
    x = layers.Dense(8, "relu", kernel_initializer=draw)(given)
    for each in between:
        x = each(x)
    return keras.Model(given, layers.Dense(1)(x))


def critic_of(env: Any) -> Any:
    assert env.observation_space.shape == (4,)
    return critic()


def actor_critic(env: Any) -> Any:
    given = keras.Input(env.observation_space.shape)
    x = layers.Dense(8)(given)
    return keras.Model(given, [layers.Dense(2)(x), layers.Dense(1)(x)])


def features(env: Any) -> Any:
    return keras.Sequential([keras.Input(env.observation_space.shape), layers.Dense(8)])


def compass_and_map(env: Any) -> Any:
    """Return a network whose policy reads one input, and its values another one."""
    given = [
        keras.Input(env.observation_space[name].shape, name=name)
        for name in ("compass", "map")
    ]
    return keras.Model(
        given, [layers.Dense(2)(given[0]), layers.Dense(2)(layers.Flatten()(given[1]))]
    )


def hidden(given: Any, kind: Any = layers) -> Any:
    return kind.Activation("tanh")(kind.Dense(8)(given))


def of_drlbox(obs_space: Any) -> Any:
    given = layers.Input(shape=obs_space.shape)
    return given, hidden(given)


def of_old_keras(obs_space: Any) -> Any:
    from tensorflow.python.keras import layers as old

    given = old.Input(shape=obs_space.shape)
    return given, hidden(given, old)


def pretrained(obs_space: Any) -> Any:
    from tensorflow.python.keras import models

    given, feature = of_old_keras(obs_space)
    model = models.Model(given, feature)
    model.set_weights([np.full(w.shape, 0.5) for w in model.get_weights()])
    return given, feature


def doubled(obs_space: Any) -> Any:
    given = layers.Input(shape=obs_space.shape)
    return given, layers.Lambda(lambda x: 2 * x)(hidden(given))


def doubled_in_old_keras(obs_space: Any) -> Any:
    from tensorflow.python.keras import layers as old

    given, feature = of_old_keras(obs_space)
    return given, old.Lambda(lambda x: 2 * x)(feature)


def streams(obs_space: Any) -> Any:
    given = layers.Input(shape=obs_space.shape)
    return given, (hidden(given), hidden(given))


def streams_of_old_keras(obs_space: Any) -> Any:
    from tensorflow.python.keras import layers as old

    given = old.Input(shape=obs_space.shape)
    return given, [hidden(given, old), hidden(given, old)]


def model_of_drlbox(env: Any) -> Any:
    given = layers.Input(shape=env.observation_space.shape)
    start = keras.initializers.RandomNormal(stddev=1e-3)
    logits = layers.Dense(env.action_space.n, kernel_initializer=start)(hidden(given))
    return keras.Model(inputs=given, outputs=[logits, layers.Dense(1)(hidden(given))])


def model_of_old_keras(env: Any) -> Any:
    from tensorflow.python.keras import initializers, models
    from tensorflow.python.keras import layers as old

    given = old.Input(shape=env.observation_space.shape)
    feature = hidden(given, old)
    start = initializers.RandomNormal(stddev=1e-3)
    logits = old.Dense(env.action_space.n, kernel_initializer=start)(feature)
    return models.Model(inputs=given, outputs=[logits, old.Dense(1)(feature)])


def critic_file() -> str:
    draw = keras.initializers.RandomUniform(-LARGEST, LARGEST, 3)
    register_initializer("seeded", draw)
    hidden = "[dense-0]\nunits=8\ninitializer=seeded\n"
    Path("critic.cfg").write_text(f"{hidden}[dense-1]\noutput=1\n")
    return "critic.cfg"


def run_of(agent: str, **given: Any) -> RunSpec:
    row = find_algorithm(agent)
    settings = {"max_steps": 1, "local": True, "seed": 1, **given}
    return prepare_run(row, Config.of(row.config, settings))


def weights_of(run: RunSpec) -> dict[str, Any]:
    arrays = make_learner(run)[0].state.arrays()
    return {k: x for k, x in arrays.items() if x.ndim and "optimizer" not in k}


@pytest.mark.parametrize(
    "make",
    [
        critic,
        lambda: critic_of,
        lambda: critic(seed=3),
        lambda: critic(Scaled(), seed=3),
        lambda: critic_file(),
    ],
    ids=["model", "function", "seeded", "unknown to NumPy", ".cfg"],
)
@pytest.mark.parametrize(
    "given",
    [pytest.param(("td3", {}), marks=pytest.mark.slow), ("sac", {"critics": 3})],
)
def test_critics_of_one_network_begin_differently(
    make: Callable[[], Any], given: tuple[str, dict[str, Any]]
) -> None:
    """By the model's own initializers; the first has the model's own weights."""
    made = make()
    agent, settings = given
    run = run_of(agent, env="Pendulum-v1", critic_model=made, **settings)
    weights, again = weights_of(run), weights_of(run)
    assert all(np.array_equal(array, again[name]) for name, array in weights.items())
    named: dict[str, dict[str, Any]] = {}
    for name, array in weights.items():
        model, _, own = name.partition("/")
        if model.startswith("critic") and "bias" not in own:
            named.setdefault(model, {})[own] = array
    critics = [model for model in named if not model.endswith("-target")]
    assert len(critics) == (3 if settings else 2)
    for own in named["critic"]:
        assert len({named[model][own].tobytes() for model in critics}) == len(critics)
    for model in critics:
        first = next(iter(named[model].values()))
        assert LARGEST / 2 < np.abs(first).max() <= LARGEST
        for own, array in named[model].items():
            np.testing.assert_array_equal(array, named[f"{model}-target"][own])
    if isinstance(made, keras.Model):
        kernel = next(iter(named["critic"].values()))
        np.testing.assert_array_equal(kernel, made.get_weights()[0])


class Fixed(keras.initializers.Initializer):  # type: ignore[misc]
    """Has a seed and says in its config nothing of it."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return keras.initializers.RandomNormal(seed=3)(shape)


@pytest.mark.parametrize(
    ("draw", "is_refused"),
    [
        (lambda shape, dtype=None: np.eye(*shape, dtype=np.float32), True),
        (Fixed(), True),
        (Fixed, True),
        (lambda shape, dtype=None: np.full(shape, 0.1, np.float32), False),
    ],
    ids=["function", "instance", "class", "constant"],
)
def test_critics_that_would_begin_alike_are_refused(
    draw: Any, is_refused: bool
) -> None:
    register_initializer("same", draw)
    hidden = "[dense-0]\nunits=8\ninitializer=same\n"
    Path("critic.cfg").write_text(f"{hidden}[dense-1]\noutput=1\n")
    run = run_of("td3", env="Pendulum-v1", critic_model="critic.cfg")
    if not is_refused:
        make_learner(run)
        return
    with pytest.raises(UserError, match="'same' draws the same weights for a second"):
        make_learner(run)


@pytest.mark.parametrize(
    "given",
    [
        {"model": actor_critic},
        {"feature_maker": features},
        {"model": model_of_old_keras},
        {"feature_maker": of_old_keras},
    ],
    ids=["model", "features", "model, old", "features, old"],
)
def test_networks_that_functions_make_repeat_with_a_seed(given: dict[str, Any]) -> None:
    def kernels(seed: int) -> list[Any]:
        weights = weights_of(run_of("ppo", env="CartPole-v1", seed=seed, **given))
        return [array for array in weights.values() if array.ndim == 2]

    one, again, other = kernels(1), kernels(1), kernels(2)
    assert len(one) == 3
    for mine, same, different in zip(one, again, other, strict=True):
        np.testing.assert_array_equal(mine, same)
        assert not np.isclose(mine, different).any()


@pytest.mark.parametrize(
    "given",
    [
        {"model": actor_critic},
        {"model": "own.keras"},
        {"model": f"{__name__}:actor_critic"},
        {"feature_maker": features},
    ],
    ids=["function", "file", "name", "features"],
)
def test_only_layers_of_cfg_files_are_copied(given: dict[str, Any]) -> None:
    given_to = keras.Input((4,))
    outputs = [layers.Dense(n)(given_to) for n in (2, 1)]
    file = keras_models.model_bytes(keras.Model(given_to, outputs), "own")
    Path("own.keras").write_bytes(file)
    with pytest.raises(UserError, match=r"--separate-networks copies the layers of"):
        run_of("ppo", env="CartPole-v1", separate_networks=True, **given)


MAKERS = {
    "shared": ({"feature_maker": of_drlbox}, 3),
    "shared, old": ({"feature_maker": of_old_keras}, 3),
    "streams": ({"feature_maker": streams}, 4),
    "streams, old": ({"feature_maker": streams_of_old_keras}, 4),
    "model": ({"model": model_of_drlbox}, 4),
    "model, old": ({"model": model_of_old_keras}, 3),
    "code": ({"feature_maker": doubled}, 3),
    "code, old": ({"feature_maker": doubled_in_old_keras}, 3),
}


@pytest.mark.parametrize(("given", "count"), MAKERS.values(), ids=list(MAKERS))
def test_networks_that_are_made_for_drlbox(given: dict[str, Any], count: int) -> None:
    run = run_of("a2c", env="CartPole-v1", **given)
    outputs = [run.layout.layers[i].output_shape for i in run.layout.outputs]
    assert outputs == [(2,), (1,)]
    kernels = [x for x in weights_of(run).values() if x.ndim == 2]
    assert len(kernels) == count
    sources = {run.layout.layers[i].source for i in run.layout.outputs}
    assert len(sources) == (1 if count == 3 else 2)


def test_weights_that_a_function_sets_are_kept() -> None:
    run = run_of("a2c", env="CartPole-v1", feature_maker=pretrained)
    weights = weights_of(run)
    assert (weights["policy/dense-0/kernel"] == 0.5).all()
    assert (weights["policy/dense-0/bias"] == 0.5).all()


def test_one_feature_for_one_output() -> None:
    run = run_of("dqn", env="CartPole-v1", feature_maker=of_drlbox)
    assert [run.layout.layers[i].output_shape for i in run.layout.outputs] == [(2,)]
    with pytest.raises(UserError, match="a tuple of its input and 1 feature"):
        run_of("dqn", env="CartPole-v1", feature_maker=streams)


def test_numbers_of_actions_are_integers_of_python() -> None:
    seen: list[Any] = []

    def maker(env: Any) -> Any:
        actions = env.action_space
        seen.append(actions.n if hasattr(actions, "n") else sum(actions.nvec))
        seen.append(env.action_space.contains(env.action_space.sample()))
        return of_drlbox(env)

    run_of("a2c", env="CartPole-v1", feature_maker=maker)
    assert type(seen[0]) is int and seen[0] == 2 and seen[1]


@pytest.mark.parametrize(
    "made", [(1, 2), (keras.Input([4]), "x")], ids=["numbers", "text"]
)
def test_what_is_no_network_is_told(made: Any) -> None:
    with pytest.raises(UserError, match="or its input and features"):
        run_of("a2c", env="CartPole-v1", feature_maker=lambda obs_space: made)


def named_model() -> Any:
    given = keras.Input((4,))
    x = layers.Dense(8, "tanh", name="first")(given)
    ends = [layers.Dense(n, name=f"end-{n}")(x) for n in (2, 1)]
    return keras.Model(given, ends)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.slow
def test_files_with_whole_models() -> None:
    model = named_model()
    model.save("own.keras")
    model.save("own.h5")
    rows = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    loaded = xagents_ray.load("own.h5", agent="a2c", env="CartPole-v1", model="own.h5")
    assert (loaded.act(rows) == np.argmax(model(rows)[0], -1)).all()
    for given in (
        {"model": "own.keras"},
        {"model": "own.h5"},
        {"weights": ("own.keras",), "model": "net.cfg"},
        {"weights": ("own.h5",), "model": "net.cfg"},
    ):
        Path("net.cfg").write_text(
            "[dense-0]\nunits=8\nactivation=tanh\ncommon=1\n"
            "[dense-1]\noutput=1\n[dense-2]\noutput=1\n"
        )
        weights = weights_of(run_of("a2c", env="CartPole-v1", **given))
        found = [array for array in weights.values() if array.ndim == 2]
        expected = [array for array in model.get_weights() if array.ndim == 2]
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_values_of_actions_read_critic_inputs() -> None:
    settings = {"model": compass_and_map, "critic_inputs": "map"}
    run = run_of("acer", env="dict_envs:compass", **settings)
    assert {each.name for each in run.layout.inputs} >= {"map"}


@pytest.mark.parametrize(("name", "is_own"), [("made-here", True), ("a.h5", False)])
def test_a_file_of_old_keras_is_no_code_of_the_run(name: str, is_own: bool) -> None:
    """Though its conversion is kept beside what the run's code made."""
    given = keras.Input((4,))
    model = keras.Model(given, layers.PReLU()(layers.Dense(3)(given)))
    file = keras_models.model_bytes(model, name)
    objects.keep("network-file", file, name)
    inputs = NetworkInputs.one((4,), 1.0)
    (whole, *_), *_ = keras_models.whole_model(name, file, inputs)
    assert isinstance(whole, WholeModel) and whole.is_own == is_own


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_run_knows_its_h5_file_again() -> None:
    named_model().save("own.h5")
    run = run_of("a2c", env="CartPole-v1", model="own.h5")
    directory = new_directory(run)
    begin_in(directory, run)
    _, stored = directory.settings()
    config, given = type(run.config.algorithm), {"model": "own.h5"}
    assert with_own_names(config, given, stored) == {"model": stored["model"]}
    named_model().save("own.h5")
    assert with_own_names(config, given, stored) == given


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_files_with_code_are_refused() -> None:
    given = keras.Input((4,))
    x = layers.Lambda(lambda x: 2 * x)(given)
    keras.Model(given, [layers.Dense(n)(x) for n in (2, 1)]).save("own.h5")
    with pytest.raises(UserError, match=r"own.h5: it has 'Lambda' .* only compute"):
        run_of("a2c", env="CartPole-v1", model="own.h5")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("is_functional", [True, False])
def test_files_of_old_keras(
    is_functional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their configs don't say from which modules the layers are."""
    import tensorflow.python.keras as package
    from tensorflow.python.keras import layers as old
    from tensorflow.python.keras import models

    # It is written into files, although TensorFlow left it out.
    monkeypatch.setitem(vars(package), "__version__", "2")
    tf.random.set_seed(1)  # other tests may have asked for reproducible operations
    given = old.Input((4,))
    x = old.PReLU()(old.Dense(8, "tanh", trainable=False)(given))
    x = old.Dense(3)(old.Dense(8)(x))
    model = models.Model(given, [old.Dense(2)(x), old.Dense(1)(x)])
    agent = "a2c"
    if not is_functional:
        agent = "dqn"
        model = models.Sequential([old.Dense(8, "relu", input_shape=(4,))])
        model.add(old.Dense(2))
    model.save("own.h5", include_optimizer=False)
    run = run_of(agent, env="CartPole-v1", model="own.h5")
    found, whole = weights_of(run).values(), run.layout.layers[0]
    assert isinstance(whole, WholeModel) or not is_functional
    assert not getattr(whole, "is_own", False)  # or Keras would run code of the file
    assert len(model.get_weights()) == (11 if is_functional else 4)
    for theirs in model.get_weights():
        same = [x for x in found if x.shape == theirs.shape and (x == theirs).all()]
        assert same


@pytest.mark.parametrize("name", ["own.keras", "own.h5"])
@pytest.mark.parametrize("setting", ["model", "weights"])
def test_damaged_files_with_whole_models(name: str, setting: str) -> None:
    Path(name).write_bytes(b"nothing of Keras")
    value = name if setting == "model" else (name,)
    with pytest.raises(UserError, match=rf"^{name}: .*(damaged|Keras can't make)"):
        weights_of(run_of("a2c", env="CartPole-v1", **{setting: value}))


def test_a_file_without_arrays_is_no_start() -> None:
    """Only beside others, for a network that has none yet."""
    write_weights("none.npz", {})
    run = run_of("a2c", env="CartPole-v1", weights=("none.npz",))
    with pytest.raises(UserError, match=r"none\.npz: has no dense-0"):
        make_learner(run)
