"""Networks from .cfg files, built on demand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xagents_ray import extend

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


class ModelReader:
    """Reads a network's .cfg file.

    Args:
        cfg_file: path of the file.
        output_units: number of units of each output, in order.
        input_shape: shape of an observation, `(D,)` or `(H, W, C)`, or `D`.
        optimizer: "adam", "rmsprop" or a Keras optimizer.
        seed: seed of the weights of `CfgModel.keras`; a run uses the agent's seed.
    """

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
        self.optimizer, self.seed = optimizer, seed

    def build_model(self) -> "CfgModel":
        """Return the network.

        Raises:
            UserError: the file is invalid; the message names the section and the key.
        """
        scale = 1 / 255 if len(self.input_shape) == 3 else 1.0
        units = [int(each) for each in self.output_units]
        layout = extend.read_layout(self.cfg_file, self.input_shape, units, scale)
        return CfgModel(self.cfg_file, layout, self.optimizer, self.seed)


class CfgModel:
    """A network from a .cfg file, with its optimizer and weights file.

    Other attributes, such as `summary()`, are those of a Keras model with these layers,
    which is built on first use.
    """

    def __init__(
        self, path: Path, layout: extend.Layout, optimizer: Any, seed: int | None
    ) -> None:
        self.cfg_file, self.layout = path, layout
        self.optimizer, self.seed = optimizer, seed
        self.weights_path: str | None = None

    def compile(self, optimizer: Any = None, **_: Any) -> None:
        """Replace the reader's optimizer."""
        self.optimizer = optimizer or self.optimizer

    def load_weights(self, path: str | Path) -> "CfgModel":
        """Start from a weights file, .tf, .weights.h5 or .npz.

        Raises:
            UserError: the file can't be read.
        """
        extend.check_weights_file(str(path))
        self.weights_path = str(path)
        return self

    def expect_partial(self) -> "CfgModel":
        """Return self; optimizer states in .tf files are always ignored."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if "_keras" not in vars(self):
            build = extend.build_model
            self._keras = build(self.layout, self.seed or 0, self.cfg_file.stem)
        return getattr(self._keras, name)


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
