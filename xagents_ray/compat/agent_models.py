"""The networks of an agent as Keras models."""

import secrets
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray import UserError, extend
from xagents_ray.compat.model_reader import CfgModel, copy_of, model_of_layout
from xagents_ray.extend import Algorithm, AlgorithmConfig, EnvSpec, Layout, Model


class AgentModels:
    """The networks of an agent: training starts from their weights and returns them.

    Args:
        row: the algorithm of the agent.
        given: networks by the name of their setting: Keras models, or other values that
            `train` accepts.
        settings: other settings of the agent by flat name.
    """

    def __init__(
        self, row: Algorithm, given: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        self._row, self._given, self._settings = row, given, settings
        self._made: dict[str, Any] = {}  # models that were not given, by name
        self._left: dict[str, list[Any]] = {}  # weights after training, by name
        self._known: tuple[AlgorithmConfig, EnvSpec] | None = None
        self._fitting: dict[str, bool] = {}  # results of `_fits`
        self._named: dict[str, Mapping[str, Any]] = {}  # variables of models
        seed = extend.TrainingConfig(seed=settings.get("seed")).seed
        self._seed = secrets.randbits(31) if seed is None else seed

    @property
    def settings(self) -> dict[str, Any]:
        """The networks as settings of `train`."""
        return {
            name: getattr(each, "cfg_file", None) or each
            for name, each in self._given.items()
        }

    @property
    def all(self) -> list[Any]:
        """A Keras model of each network, in the order of the agent's checkpoints.

        Raises:
            UserError: a network is only made when training starts.
        """
        return [self._model(each) for each in self._networks]

    @property
    def names(self) -> list[str]:
        """Names of the networks in the learner that there are models of."""
        return [each.name for each in self._trained]

    @property
    def has_changed(self) -> bool:
        """Whether weights were changed after training."""
        return any(
            not all(map(np.array_equal, self._model(each).get_weights(), left))
            for each in (self._networks if self._left else ())
            if (left := self._left.get(each.name)) is not None
        )

    @property
    def has_unfilled(self) -> bool:
        """Whether there are models that have had no weights of training yet."""
        return any(each.name not in self._left for each in self._trained)

    def write(self, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Write the weights to a folder; return the settings that start from them.

        Args:
            folder: directory for a file of each network.
            settings: settings of the training that will start.
        Returns:
            An empty dict if training needs no files: Keras models that are not from
            .cfg files bring their weights along, and the settings may say what training
            starts from.
        Raises:
            UserError: a model doesn't fit the environment, or its weights don't fit the
                settings.
        """
        if settings.get("resume") is not None:
            return {}
        self._settings, self._known, self._fitting = settings, None, {}
        if not self._made and not any(map(_is_from_cfg, self._given.values())):
            return {}
        self._named = {}
        for each in self._networks:
            self._exists(each)  # refuses models of other environments
        if settings.get("weights") is not None:
            return {}
        paths = [self._write(each, folder) for each in self._networks]
        if not any(paths):
            return {}
        none = str(folder / "none.npz")  # for networks that training makes
        extend.write_weights(none, {})
        return {"weights": [path or none for path in paths]}

    def write_acting(self, folder: Path) -> str | None:
        """Write the acting network's weights; None if there are none."""
        return self._write(self._networks[0], folder) or None

    def read(self, directory: str) -> None:
        """Give the models the weights of a run's newest checkpoint."""
        self.take(extend.newest_arrays(directory))

    def take(self, arrays: Mapping[str, Any]) -> None:
        """Give the models weights from a learner, by `policy/dense-0/kernel`."""
        for each in self._trained:
            own, model = each.own(arrays), self._model(each)
            for name, variable in self._variables(each).items():
                variable.assign(own[name])
            if isinstance(model, CfgModel):
                model.weights_path = None
                names = self._row.extras(each, *self._facts)
                model.extras = {name: own[name] for name in names}
            self._left[each.name] = model.get_weights()

    def arrays(self) -> dict[str, Any]:
        """Return copies of the models' weights by their names in a learner."""
        return {
            f"{each.name}/{name}": array
            for each in self._trained
            for name, array in copy_of(self._variables(each)).items()
        }

    @property
    def _trained(self) -> list[Model]:
        """The networks that there are models of, with the layers of training."""
        return [each for each in self._networks if self._exists(each)]

    @property
    def _facts(self) -> tuple[AlgorithmConfig, EnvSpec]:
        """The agent's settings, and the spec of its environments."""
        if self._known is None:
            mistakes = extend.Mistakes()
            given = {**self._settings, **self.settings}
            values = extend.plain_settings(self._row, given, mistakes)
            mistakes.report()
            values = extend.apply_preset(self._row, values)
            env, spec = extend.make_env(extend.EnvConfig.of(values))
            env.close()
            self._known = self._row.config.of(values), spec
        return self._known

    @property
    def _networks(self) -> Sequence[Model]:
        if self._row.adapt is None:  # needs no environment
            return self._row.models
        return self._row.adapted(self._facts[0]).models

    def _is_first(self, each: Model) -> bool:
        """Return whether a network is the first of those with the same setting."""
        first = next(x for x in self._networks if x.file == each.file)
        return each.name == first.name

    def _exists(self, each: Model) -> bool:
        return each.name in self._made or self._is_given(each)

    def _is_given(self, each: Model) -> bool:
        """Return whether training uses the model that was given for a network."""
        given = self._given.get(each.file)
        if not _is_keras(given) or not self._is_first(each):
            return False
        if each.name not in self._fitting:
            self._fitting[each.name] = self._fits(each, given)
        return self._fitting[each.name]

    def _model(self, each: Model) -> Any:
        """Return the Keras model of a network; make it if it wasn't given."""
        given = self._given.get(each.file)
        if each.name in self._made:
            return self._made[each.name]
        if self._is_given(each):
            return given
        if _is_keras(given) and not _is_from_cfg(given):
            made = extend.redrawn_model(given, f"{self._seed} {each.name}")
        else:
            layout, path = self._layout(each), self.settings.get(each.file)
            is_first = self._is_first(each)
            made = model_of_layout(layout, path, self._seed, each.name, not is_first)
            if is_first and (loaded := getattr(given, "weights_path", None)):
                made.load_weights(loaded)
        self._made[each.name] = made
        return made

    def _layout(self, each: Model) -> Layout:
        """Return the layout of a network from a .cfg file, in training."""
        given, (config, spec) = self.settings.get(each.file), self._facts
        maker = config.feature_maker if given is None else given
        name = str(given) if isinstance(given, str | Path) else ".keras"
        if maker is not None and (name.endswith((".keras", ".h5")) or ":" in name):
            raise UserError(
                f"{each.file} is made when training starts, of {maker!r:.80}: give the "
                "agent a Keras model in its place to have it here."
            )
        return self._row.layout_of(each, config, spec)

    def _fits(self, each: Model, given: Any) -> bool:
        """Return whether training uses a model's layers as they are; else warn.

        Raises:
            UserError: the model was read for an environment with other spaces.
        """
        if not _is_from_cfg(given):
            return True
        config, spec = self._facts
        layout = each.layout(str(given.cfg_file), spec)
        if layout.shapes != given.layout.shapes:
            shape, units = layout.input_shape, each.outputs(spec)
            raise UserError(
                f"{each.file}: {given.cfg_file} was read for another environment: give "
                f"ModelReader output_units={units} and input_shape={shape}."
            )
        if self._row.layout_of(each, config, spec).shapes == layout.shapes:
            return True
        warnings.warn(
            f"{each.file}: the agent's settings add layers to {given.cfg_file}, so "
            "this model keeps its own weights; those of training are in the agent's "
            "output_models.",
            stacklevel=7,
        )
        return False

    def _write(self, each: Model, folder: Path) -> str:
        """Write a network's weights to a file; return its path, or "" without weights.

        Raises:
            UserError: the model that was given has weights, and not all layers.
        """
        given: Any = self._given.get(each.file) if self._is_first(each) else None
        exists = self._exists(each)
        model: Any = self._model(each) if exists else given
        if loaded := getattr(model, "weights_path", None):
            return str(loaded)
        if _is_from_cfg(given) and not self._is_given(each):
            self._check_replaced(each, given)
        if not exists:
            return ""
        config, spec = self._facts
        arrays = copy_of(self._variables(each))
        for name, shape in self._row.extras(each, config, spec).items():
            arrays[name] = np.full(shape, _first_value(name, config), np.float32)
        extras = getattr(model, "extras", None)
        if extras is not None and "action_scaling" not in extras:
            arrays.pop("action_scaling", None)  # so that a note asks about old weights
        path = str(folder / f"{each.name}.npz")
        extend.write_weights(path, {**arrays, **(extras or {})})
        return path

    def _check_replaced(self, each: Model, given: CfgModel) -> None:
        """Raise UserError if weights of a model that lacks layers would be lost."""
        if each.name in self._left or given.extras is None or given.weights_path:
            return
        raise UserError(
            f"{each.file}: the agent's settings add layers to {given.cfg_file}, which "
            "the weights of this model lack: load weights that were trained with these "
            "settings, or leave the settings out."
        )

    def _variables(self, each: Model) -> Mapping[str, Any]:
        """Return the variables of a network's model by their names in training."""
        if each.name in self._named:
            return self._named[each.name]
        model, spec = self._model(each), self._facts[1]
        if isinstance(model, CfgModel) and model.layout is not None:
            found = extend.named_weights(model)
        else:
            units = spec.action_units if each.reads_actions else 0
            found = extend.user_variables(model, spec, units)
        self._named[each.name] = found
        return found  # type: ignore[no-any-return]


def _first_value(name: str, config: AlgorithmConfig) -> float:
    """Return what an array that isn't a network's is filled with before training."""
    if name == "log_std":
        return extend.state_dependent.noise_of(config).init_log_std
    is_one = name == "action_scaling" or name.endswith("/variance")
    return 1.0 if is_one else 0.0


def _is_keras(given: Any) -> bool:
    keras = sys.modules.get("keras")  # Keras 3; TensorFlow has an older one too
    return keras is not None and isinstance(given, keras.Model)


def _is_from_cfg(given: Any) -> bool:
    return isinstance(given, CfgModel) and given.cfg_file is not None
