"""The description of an algorithm, and the table of all algorithms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NewType

from xagents_ray.algorithms.critic_inputs import check_critic_inputs
from xagents_ray.algorithms.recurrent_layers import add_memory
from xagents_ray.core import moments
from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import Place
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.layout import Layout, join_branches
from xagents_ray.networks.reading import layout_for
from xagents_ray.settings.algorithm import AlgorithmConfig

AgentName = NewType("AgentName", str)
"""Name of an agent that type checkers don't know: `train(AgentName("my-agent"))`."""


@dataclass(frozen=True)
class Model:
    """One network of an algorithm.

    Attributes:
        name: name of the network, such as `policy`; prefix of its arrays' names, such
            as `policy/dense-0/kernel`.
        networks: default .cfg file, from this package or an absolute path; `{kind}`
            becomes `vector` or `image`.
        heads: names of the outputs: `actions` of the policy, one `value`, or
            `action_values` that the policy doesn't act by.
        file: name of the config's field with the user's .cfg file.
        reads_actions: whether the input is an observation vector and an action.
        has_log_std: whether continuous actions have a learned standard deviation in
            addition to the outputs, unless the config `uses_sde`.
        gives_logits: whether outputs are logits; a final softmax is removed.
        is_bounded: whether outputs lie in [-1, 1]; a linear output gets a tanh.
        adapt: function that maps the layout and the config to a layout, or None.
    """

    name: str
    networks: str
    heads: tuple[str, ...]
    file: str = "model"
    reads_actions: bool = False
    has_log_std: bool = False
    gives_logits: bool = False
    is_bounded: bool = False
    adapt: Callable[[Layout, Any], Layout] | None = None

    def layout(
        self, file: str | None, spec: EnvSpec, unread: Sequence[str] = ()
    ) -> Layout:
        """Return the network's layout, from the user's file or the default one.

        `unread` are names of inputs that the policy must not read.

        Raises:
            UserError: the file doesn't fit, or the policy reads such an input.
        """
        extra = spec.action_units if self.reads_actions else 0
        outputs = self.outputs(spec)
        layout = layout_for(file, self.networks, spec, outputs, extra)
        policy = [i for i, head in enumerate(self.heads) if head == "actions"]
        if unread and file is not None:
            check_critic_inputs(layout, policy, unread, spec, file)
        elif unread and policy:
            own = layout_for(None, self.networks, spec, outputs, extra, unread)
            heads = range(len(self.heads))
            branches = [(own if i in policy else layout, i) for i in heads]
            layout = own if len(policy) == len(self.heads) else join_branches(branches)
        layout = layout.without_softmax() if self.gives_logits else layout
        return layout.bounded() if self.is_bounded else layout

    def outputs(self, spec: EnvSpec) -> list[int]:
        """Return the number of units of each output for an environment."""
        count = spec.action_units
        units = {"actions": count, "value": 1, "action_values": count}
        return [units[head] for head in self.heads]

    def input_shape(self, spec: EnvSpec) -> tuple[int, ...]:
        """Return the shape of the input for an environment, without the batch."""
        first, *rest = spec.input_shape
        return (first + spec.action_units if self.reads_actions else first, *rest)

    def own(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return this model's arrays from a learner's state, without the prefix."""
        start = f"{self.name}/"
        own = [name for name in arrays if name.startswith(start)]
        return {name.removeprefix(start): arrays[name] for name in own}


@dataclass(frozen=True)
class Algorithm:
    """Description of an algorithm.

    Classes are import paths, `module:class`, so that the command line loads neither
    TensorFlow nor the algorithm's dependencies; scripts and notebooks may pass the
    classes themselves.

    Attributes:
        name: name on the command line, such as `ppo`.
        config: class of the settings.
        learner: class of the learner, constructed from a `LearnerSetup`.
        policy: class of the NumPy policy that selects actions.
        models: networks in the order of --weights and --checkpoints; the first one
            selects actions.
        on_policy: whether the algorithm learns from rounds of trajectories, each when
            it arrives unless `--no-online-learning` is set.
        replay: class of the replay buffer, or None; the settings decide whether it is
            used.
        discrete: whether discrete actions are supported.
        continuous: whether continuous actions are supported.
        multi_discrete: whether several discrete actions per step are supported.
        action_masks: whether discrete actions may be limited by masks.
        recurrent: whether networks may have memory, from recurrent layers.
        presets: YAML file of tuned settings; see `algorithms.presets`.
        adapt: function that maps the models and the config to models, or None.
    """

    name: str
    config: type[AlgorithmConfig]
    learner: Place
    policy: Place
    models: tuple[Model, ...]
    on_policy: bool
    replay: Place | None = None
    discrete: bool = True
    continuous: bool = True
    multi_discrete: bool = False
    action_masks: bool = False
    recurrent: bool = False
    presets: Path | None = None
    adapt: Callable[[tuple[Model, ...], Any], tuple[Model, ...]] | None = None

    def adapted(self, config: AlgorithmConfig) -> "Algorithm":
        """Return the algorithm with the networks that a config requires."""
        if self.adapt is None:
            return self
        return replace(self, models=self.adapt(self.models, config))

    def layout(self, file: str | None, spec: EnvSpec) -> Layout:
        """Return the acting network's layout, from the user's file or the default."""
        return self.models[0].layout(file, spec)

    def layouts(self, config: AlgorithmConfig, spec: EnvSpec) -> tuple[Layout, ...]:
        """Return the layouts of all networks for an environment."""
        return tuple(
            self.layout_of(model, config, spec) for model in self.adapted(config).models
        )

    def layout_of(self, model: Model, config: AlgorithmConfig, spec: EnvSpec) -> Layout:
        """Return the layout of one network for an environment.

        Raises:
            UserError: the network or the config does not fit the environment.
        """
        config.check_spec(spec)
        file, unread = getattr(config, model.file), config.unread_inputs
        layout = add_memory(model.layout(file, spec, unread), config)
        if layout.state_units and not self.recurrent:
            fit = ", ".join(r.name for r in ALGORITHMS.values() if r.recurrent)
            [name, *_] = (each.name for each in layout.layers if each.state_units)
            raise UserError(
                f"{file}: [{name}]: {self.name} can't learn with memory; remove the "
                f"section, or use one of {fit}."
            )
        return layout if model.adapt is None else model.adapt(layout, config)

    def extras(
        self, model: Model, config: AlgorithmConfig, spec: EnvSpec
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a weights file's arrays that aren't the network's."""
        extras: dict[str, tuple[int, ...]] = {}
        if model.has_log_std and not spec.is_discrete:
            if not config.uses_sde:
                extras["log_std"] = (spec.action_units,)
            if config.scales_actions:
                extras["action_scaling"] = ()
        if model is not self.models[0]:
            return extras
        if config.normalize_observations:
            extras |= moments.statistics_shapes(spec.observation_shape)
        for i, shape in enumerate(spec.wrappers):
            extras |= moments.moments_shapes(moments.wrapper_name(i), shape)
        return extras

    def check_spaces(self, spec: EnvSpec) -> None:
        """Raise UserError when the algorithm doesn't support the spaces."""
        obstacle = self._obstacle(spec)
        if obstacle is not None:
            fit = [r.name for r in ALGORITHMS.values() if r._obstacle(spec) is None]
            *firsts, last = [*fit] or ["another environment"]
            remedy = f"{', '.join(firsts)} or {last}" if firsts else last
            raise UserError(f"{self.name} {obstacle}; use {remedy}.")

    def _obstacle(self, spec: EnvSpec) -> str | None:
        """Return why the spaces aren't supported; None if they are."""
        if not (self.discrete if spec.is_discrete else self.continuous):
            has = "discrete" if spec.is_discrete else "continuous"
            return f"can't take the {has} actions of this environment"
        if spec.has_action_masks and not (self.action_masks and spec.is_discrete):
            return "can't use action masks, which --no-action-masks ignores"
        if spec.action_sizes and not self.multi_discrete:
            return "can't take several actions at once, as this environment does"
        if any(model.reads_actions for model in self.models):
            if spec.is_image or spec.has_several_arrays:
                return "needs observation vectors and this environment gives images"
            if not all(spec.is_bounded):
                return "needs bounded actions and this environment's have no bounds"
        return None


ALGORITHMS: dict[str, Algorithm] = {}
"""The algorithms by name, filled by `xagents_ray.algorithms.table`."""


def add_algorithm(row: Algorithm) -> None:
    """Add an algorithm of this package; other packages use `table.register`."""
    ALGORITHMS[row.name] = row
