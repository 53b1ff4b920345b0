"""User-defined Keras models in a run's settings, built and stored as files."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from xagents_ray.algorithms.definition import Algorithm, Model
from xagents_ray.core import objects
from xagents_ray.core.errors import (
    RemoteTraceback,
    UserError,
    one_line,
)
from xagents_ray.core.files import read_regular
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.process import drawing_by
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.user_code import (
    importing_from_here,
    place_that_raised,
    traceback_of,
)
from xagents_ray.networks import keras_files
from xagents_ray.networks.inputs import inputs_of
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.run.learner_access import load_tensorflow
from xagents_ray.run.tensorflow_child import FROM_H5, with_tensorflow
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.options import options
from xagents_ray.settings.training import EnvConfig

_KERAS = "xagents_ray.networks.keras_models:"
_CONVERSION = "xagents_ray.networks.keras_conversion:"
_TRAINING_ONLY = {
    "AlphaDropout",
    "BatchNormalization",
    "Dropout",
    "GaussianDropout",
    "GaussianNoise",
    "SpatialDropout1D",
    "SpatialDropout2D",
}
"""Keras layers that behave differently in training."""
_RECURRENT = {"ConvLSTM1D", "ConvLSTM2D", "GRU", "LSTM", "RNN", "SimpleRNN"}


def save_user_networks(
    algorithm: Algorithm,
    config: AlgorithmConfig,
    env: EnvConfig,
    spec: EnvSpec,
    seed: int,
) -> AlgorithmConfig:
    """Return the config with all networks stored as files; see `keras_files.content`.

    A user's function is called with an environment whose `observation_space` is the
    input of the network: a vector, followed by the action if the network reads actions,
    an image with stacked frames as channels, or a Dict of such spaces for named inputs
    that include images or leave out critic inputs; see `MakerView`. Its layers
    initialize their weights from `seed`, unless they have their own seeds.

    Raises:
        UserError: a network is not a Keras model.
        EnvironmentFault: a function raised; the message names its line.
    """
    # Leave GPU memory to the learner, which has a separate process on Ray.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    changes: dict[str, Any] = {}
    done = set[str]()
    for model in algorithm.models:
        if model.file in done:
            continue  # several critics have the same network
        done.add(model.file)
        if (given := getattr(config, model.file)) is not None and _is_h5(given):
            file = with_tensorflow(given, FROM_H5, given, _read(given))
            objects.keep("network-file", file, given)
            continue
        with drawing_by(f"{seed} {model.name}"):
            made = _network(config, model, env, spec)
        if made is None:
            continue
        name, network = made
        changes[model.file] = name
        file = resolve_name(f"{_KERAS}model_bytes")(network, name)
        objects.keep("network-file", file, name)
    return replace(config, **changes) if changes else config


def _network(
    config: AlgorithmConfig, model: Model, env: EnvConfig, spec: EnvSpec
) -> tuple[str, Any] | None:
    """Return the name and the Keras model of a model's user network, if any."""
    name, features = getattr(config, model.file), config.feature_maker
    if name is None and features is not None and not model.reads_actions:
        before = _features(features, model, env, spec, config.unread_inputs)
        heads = resolve_name(f"{_CONVERSION}with_heads")
        return f"{features}+{model.name}", heads(before, model.outputs(spec), features)
    found = None if name is None else _object(name)
    if name is None or found is None:
        return None
    if not hasattr(found, "get_config"):
        found = _called(found, name, model, env, spec, config.unread_inputs)
    return name, resolve_name(f"{_CONVERSION}as_keras_model")(found, name)


def _is_h5(name: str) -> bool:
    return name.endswith(".h5") and objects.find_kept("network", name) is None


def _read(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise keras_files.unreadable(path, error) from None


def user_keras_files(
    algorithm: Algorithm, config: AlgorithmConfig
) -> tuple[bytes | None, ...]:
    """Return the Keras file of each model; None for those of .cfg files."""
    names = (getattr(config, model.file) for model in algorithm.models)
    return tuple(map(keras_files.content, names))


def file_copies(config: AlgorithmConfig) -> dict[str, bytes]:
    """Return the contents of network files, by setting plus `.cfg` or `.keras`.

    A file of Keras 2 is there twice: converted, and as it is with `.h5`.

    Raises:
        OSError: a file can't be read.
    """
    found: dict[str, bytes] = {}
    for each in options(type(config)):
        path = getattr(config, each.name)
        if each.is_path and path is not None:
            file = keras_files.content(path)
            if file is None:
                found[f"{each.name}.cfg"] = read_regular(path)
            else:
                found[f"{each.name}.keras"] = file
            if _is_h5(path):
                found[f"{each.name}.h5"] = read_regular(path)
    return found


def network_notes(layouts: Iterable[Layout]) -> Iterator[str]:
    """Yield notes on Keras models that act slowly, or not as their layers suggest."""
    for layout in layouts:
        whole = layout.layers[0]
        if not isinstance(whole, WholeModel):
            continue
        yield (
            f"{whole.model} has layers that NumPy can't compute, so TensorFlow does "
            "where it acts, too: it acts more slowly"
        )
        if kinds := ", ".join(sorted(whole.kinds & _TRAINING_ONLY)):
            yield (
                f"{whole.model} has layers that train as they act, so that nothing is "
                f"dropped and no statistics change: {kinds}"
            )
        if kinds := ", ".join(sorted(whole.kinds & _RECURRENT)):
            yield (
                f"{whole.model} has recurrent layers that remember nothing from one "
                f"step to the next, {kinds}: for memory, let an LSTM or GRU with the "
                "defaults of Keras read Reshape((1, -1)), and use only layers that "
                "NumPy can compute"
            )


def _object(name: str) -> Any | None:
    """Return the object that a setting names, or None for a file."""
    kept = objects.find_kept("network", name)
    if kept is not None or ":" not in name or Path(name).is_file():
        return kept
    with importing_from_here():
        return resolve_class("function", name)


def _features(
    name: str, model: Model, env: EnvConfig, spec: EnvSpec, unread: Sequence[str]
) -> Any:
    maker = _object(name)
    if maker is None:
        raise UserError(f"--feature-maker {name}: name a function, module:function.")
    return _called(maker, name, model, env, spec, unread)


def _called(
    maker: Callable[[Any], Any],
    name: str,
    model: Model,
    config: EnvConfig,
    spec: EnvSpec,
    unread: Sequence[str],
) -> Any:
    """Return the network that a user's function builds for an environment.

    `unread` are the inputs that policies don't read.
    """
    from xagents_ray.actors.envs import make as environments
    from xagents_ray.actors.envs.interface import flag_fault
    from xagents_ray.actors.envs.maker_view import MakerView

    has_value = {"value", "action_values"} & {*model.heads}
    space = _input_space(model, spec, () if has_value else unread)
    env = MakerView(environments.make_single(config, None), space)
    load_tensorflow()
    drawing = resolve_name(f"{_CONVERSION}drawing_as_python")
    try:
        with drawing(), importing_from_here():
            return maker(env)
    except UserError:
        raise
    except Exception as error:
        trace = traceback_of(error)
        subject, place = f"{name} made no network", place_that_raised(error)
        raise flag_fault(
            subject, one_line(error), place, "fix it there", trace
        ) from RemoteTraceback(trace)
    finally:
        env.close()


def _input_space(model: Model, spec: EnvSpec, unread: Sequence[str]) -> Any:
    """Return the space of a network's input, without the inputs that are not read."""
    import gymnasium as gym

    def box(shape: tuple[int, ...], is_bytes: bool) -> Any:
        low, high = (0, 255) if is_bytes else (-math.inf, math.inf)
        dtype: Any = "uint8" if is_bytes else "float32"
        return gym.spaces.Box(low, high, shape, dtype)

    is_bytes = spec.observation_dtype == "uint8" and not model.reads_actions
    if not (spec.has_several_arrays or unread):
        return box(model.input_shape(spec), is_bytes)
    parts = inputs_of(spec, unread=unread).parts
    return gym.spaces.Dict(
        {
            each.name: box(parts[each.name].shape, each.is_image or is_bytes)
            for each in spec.inputs
            if each.name in parts
        }
    )
