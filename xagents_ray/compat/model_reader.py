"""Networks from .cfg files as Keras models."""

import functools
import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from xagents_ray import UserError, extend

_OF_KERAS = {"lr": 1e-3, "opt_epsilon": 1e-7}
"""Defaults of Keras optimizers."""
_NAMES = {
    "learning_rate": "lr",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "rho": "beta2",
    "epsilon": "opt_epsilon",
}
"""Settings by their Keras names."""
_OTHERS = (".h5", ".weights.json")
"""Endings of weights files that only Keras reads."""
_MEDIUM, _LARGE = 1e5, 1e6
"""FLOPs of a layer per observation from which a run's learner, with a hundred of them
in an update, has several threads; see docs/adr/0007.
"""


class ModelReader:
    """Reads a network's .cfg file.

    Args:
        cfg_file: path of the file.
        output_units: number of units of each output, in order.
        input_shape: shape of an observation, `(D,)` or `(H, W, C)`, or `D`.
        optimizer: "adam", "rmsprop" or a Keras optimizer.
        seed: seed of the initial weights; None for random ones.
    Attributes:
        initializers: initializers that files may name. Add one of your own, or a class
            or function that makes one: `ModelReader.initializers["tiny"] = Tiny`.
    """

    initializers: ClassVar[dict[str, Any]] = {x: x for x in extend.INITIALIZERS}

    def __init__(
        self,
        cfg_file: str | Path,
        output_units: Sequence[int],
        input_shape: int | Sequence[int],
        optimizer: Any = None,
        seed: int | None = None,
    ) -> None:
        self.cfg_file, self.output_units = Path(cfg_file), list(output_units)
        if not isinstance(input_shape, Sequence):
            input_shape = (int(input_shape),)
        self.input_shape = tuple(input_shape)
        self.optimizer = optimizer
        self.seed = extend.TrainingConfig(seed=seed).seed

    def build_model(self) -> Any:
        """Return the network, a `keras.Model`.

        An agent starts from the weights that it has then, and gives it the trained
        ones.

        Raises:
            UserError: the file is invalid; the message names the section and the key.
                Or Keras has no such optimizer.
        """
        for name, initializer in self.initializers.items():
            if initializer != name:
                extend.register_initializer(name, initializer)
        scale = 1 / 255 if len(self.input_shape) == 3 else 1.0
        units = [int(each) for each in self.output_units]
        layout = extend.read_layout(self.cfg_file, self.input_shape, units, scale)
        seed = secrets.randbits(31) if self.seed is None else self.seed
        model = model_of_layout(layout, self.cfg_file, seed, self.cfg_file.stem)
        if self.optimizer is not None:
            try:
                model.compile(self.optimizer)
            except (TypeError, ValueError):
                raise UserError(
                    f"optimizer={self.optimizer!r:.80} is none of Keras: give adam, "
                    "rmsprop or a Keras optimizer."
                ) from None
            if isinstance(self.optimizer, str):
                model.given_optimizer = self.optimizer
        return model


class CfgModel:
    """Attributes and methods that a Keras model from a .cfg file has in addition.

    Attributes:
        cfg_file: path of the file; None for copies, such as `clone_model` makes.
        layout: the network's layout; None for copies.
        extras: arrays of the loaded weights file that aren't the network's, by name.
        given_optimizer: the name of the optimizer, if the reader was given one.
        weights_path: path of the loaded weights file, if it is of another network: that
            of an agent whose settings add layers.
    """

    cfg_file: Path | None = None
    layout: extend.Layout | None = None
    extras: Mapping[str, Any] | None = None
    given_optimizer: str | None = None
    weights_path: str | None = None

    def load_weights(self, path: str | Path, *args: Any, **settings: Any) -> "CfgModel":
        """Load a weights file: .tf, .weights.h5, .npz, .keras, or another of Keras.

        If it is of another network, this model keeps its weights, and an agent whose
        settings add those layers, such as `dueling=True`, starts from the file.

        Raises:
            UserError: the file can't be read.
        """
        name = str(path)
        is_ours = name.endswith(".weights.h5") or not name.endswith(_OTHERS)
        if self.layout is None or not is_ours:
            extend.check_weights_file(name)
            super().load_weights(path, *args, **settings)  # type: ignore[misc]
            self.extras, self.weights_path = {}, None
            return self
        arrays = extend.read_weights(name, self.layout)
        self.weights_path = name if arrays is None else None
        if arrays is None:
            warnings.warn(
                f"{name} is of another network than {self.cfg_file}: this model keeps "
                "its weights, and an agent whose settings add those layers starts from "
                "the file.",
                stacklevel=2,
            )
            return self
        for key, variable in extend.named_weights(self).items():
            variable.assign(arrays.pop(key))
        self.extras = arrays
        return self

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace the weights; agents start from these, and from no file."""
        self.weights_path = None
        super().set_weights(weights)  # type: ignore[misc]

    def __reduce__(self) -> Any:
        """Let Keras unpickle it as a plain model, whose class is found by its name."""
        reduced: Any = super().__reduce__()
        unpickle, arguments = reduced
        plain = type(self).__mro__[2]
        return getattr(plain, unpickle.__name__), arguments

    def expect_partial(self) -> "CfgModel":
        """Return self; optimizer states in .tf files are always ignored."""
        return self


@functools.cache
def _kind(functional: Any) -> Any:
    """Return the class of Keras models from .cfg files, given that of others.

    It has the same name, so that a saved model is one of Keras alone.
    """
    named = {"__module__": functional.__module__}
    return type(functional.__name__, (CfgModel, functional), named)


def model_of_layout(
    layout: extend.Layout,
    path: Path | None,
    seed: int,
    name: str,
    redrawn: bool = False,
) -> Any:
    """Return a layout's network as a `keras.Model` that is a `CfgModel`.

    Args:
        layout: the network.
        path: path of its .cfg file, if it has one.
        seed: seed of the initial weights.
        name: name of the model, which the initial weights depend on too.
        redrawn: whether user initializers with seeds get others, for a second network.
    """
    # A local run comes later, and can't set the threads once there are variables.
    if (flops := max(layer.flops for layer in layout.layers)) < _LARGE:
        extend.set_threads(1, 1 if flops < _MEDIUM else 2)
    # Leave GPU memory to the learner, which has a separate process on Ray.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    built = extend.build_model(layout, seed, name, redrawn=redrawn)
    kind: Any = type(built)
    model = _kind(kind)(built.inputs, built.outputs, name=built.name)
    model.cfg_file, model.layout = path, layout
    return model


def warn_of_ends(row: extend.Algorithm, models: Mapping[str, Any]) -> None:
    """Warn of .cfg models whose last activation isn't what an agent needs.

    Args:
        row: the algorithm of the agent.
        models: networks of the agent by the name of their setting.
    """
    for model in row.models:
        given = models.get(model.file)
        if not isinstance(given, CfgModel) or given.layout is None:
            continue
        if model.is_bounded and given.layout.bounded() != given.layout:
            warnings.warn(
                f"{model.file}: training adds a tanh to {given.cfg_file}, which this "
                "model lacks: end the file in activation=tanh.",
                stacklevel=3,
            )
        if "value" not in model.heads:
            continue
        end = given.layout.outputs[model.heads.index("value")]
        activation = given.layout.layers[end].activation
        if activation != "linear":
            own = f"xagents_ray.agents[{row.name!r}][{model.file!r}]"
            warnings.warn(
                f"{model.file}: {given.cfg_file} ends in {activation}, which bounds "
                f"the values that it can learn; {own} has others.",
                stacklevel=3,
            )


def copy_of(arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return copies of Keras variables by name."""
    return {k: np.array(each.numpy(), np.float32) for k, each in arrays.items()}


def optimizer_of(model: Any) -> Any:
    """Return the optimizer of a Keras model, or its name; None if there is none."""
    given = getattr(model, "given_optimizer", None)
    compiled: Any = getattr(model, "optimizer", None)  # a path has no optimizer
    if not isinstance(given, str) or type(compiled).__name__.lower() != given.lower():
        return compiled
    now, first = compiled.get_config(), type(compiled)().get_config()
    is_changed = any(now[key] != first[key] for key in _NAMES.keys() & now.keys())
    return compiled if is_changed else given


def optimizer_settings(optimizer: Any) -> dict[str, Any]:
    """Return the settings of an optimizer, given its name or a Keras optimizer."""
    if optimizer is None:
        return {}
    if isinstance(optimizer, str):
        name = optimizer.lower()
        rho = {"beta2": 0.9} if name == "rmsprop" else {}
        return {"optimizer": name, **_OF_KERAS, **rho}
    name, given = type(optimizer).__name__.lower(), optimizer.get_config()
    if name not in ("adam", "rmsprop") or isinstance(given["learning_rate"], dict):
        return {"optimizer": optimizer}  # another class, or with a schedule
    own = {_NAMES[key]: given[key] for key in _NAMES.keys() & given.keys()}
    return {"optimizer": name, **own}
