"""Inputs that only critics and values read (asymmetric actor-critic)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks.inputs import InputPart, Selection, inputs_of
from xagents_ray.networks.keras_layers import WholeModel
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import Group
from xagents_ray.settings.options import option, shared


@dataclass(frozen=True, kw_only=True)
class CriticInputs(Group):
    """Setting of the inputs that policies don't read, arXiv:1710.06542."""

    critic_inputs: str | None

    @property
    def unread_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that only critics and values read."""
        names = (self.critic_inputs or "").split(",")
        return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))

    def check_settings(self) -> None:
        """Raise UserError when no input is named."""
        if self.critic_inputs is not None and not self.unread_inputs:
            raise UserError(
                "--critic-inputs names inputs, separated by commas, and here are none: "
                "name some, or leave it out."
            )

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the environment has other inputs, or no more."""
        known = [each.name for each in spec.inputs]
        if self.unread_inputs and not known:
            raise UserError(
                f"--critic-inputs {self.critic_inputs} names parts of Dict or Tuple "
                "observations, and this environment's are one array: leave it out."
            )
        for name in self.unread_inputs:
            if name not in known:
                raise UserError(
                    f"--critic-inputs: there is no input {name!r:.80}; this "
                    f"environment has {', '.join(known)}."
                )
        if known and not {*known} - {*self.unread_inputs}:
            raise UserError(
                f"--critic-inputs {self.critic_inputs} leaves no input for the policy: "
                "leave out at least one."
            )


def _joined(value: Any) -> Any:
    """Convert a list or tuple of names to the config's text."""
    is_names = isinstance(value, list | tuple) and all(
        isinstance(x, str) for x in value
    )
    return ",".join(value) if is_names else value


critic_inputs = shared(
    option,
    "Names of inputs of a Dict or Tuple observation, separated by commas, that only "
    "values and critics read, and not the policy, which acts without them; the default "
    "network then has separate layers for the policy",
    takes="Sequence[str]",
    expected="names of inputs, separated by commas",
    to_plain=_joined,
    acts=True,
    known_as=("critic_obs", "privileged_inputs", "asymmetric_critic"),
    replaces=("separate_networks",),
    group=CriticInputs,
)


def check_critic_inputs(
    layout: Layout,
    policy: Sequence[int],
    names: Sequence[str],
    spec: EnvSpec,
    file: str,
) -> None:
    """Raise UserError if a policy reads a critic input, or no value reads it.

    Args:
        layout: a network of the user's.
        policy: numbers of the outputs that belong to the policy.
        names: names of the critic inputs.
        spec: spec of the environment.
        file: the network's file, for messages.
    """
    parts = inputs_of(spec).parts
    ends = [layout.outputs[number] for number in policy]
    rest = [end for n, end in enumerate(layout.outputs) if n not in policy]
    for name in names:
        if reads_part(layout, ends, parts[name]):
            raise UserError(
                f"{file}: the policy's output reads {name}, which --critic-inputs "
                f"leaves to the value: begin its layers with other inputs, such as "
                f"[input-{_other(spec, names)}], or leave out the name."
            )
        if rest and not reads_part(layout, rest, parts[name]):
            raise UserError(
                f"{file}: no value reads {name} of --critic-inputs: leave out the "
                f"name, or give the value's layers from=input-{name}."
            )


def _other(spec: EnvSpec, names: Sequence[str]) -> str:
    return next(each.name for each in spec.inputs if each.name not in names)


def reads_part(layout: Layout, outputs: Sequence[int], part: InputPart) -> bool:
    """Return whether layers before these outputs read a part of the input.

    `outputs` are indices of layers.
    """
    for i in layout.reached(outputs):
        layer = layout.layers[i]
        if isinstance(layer, WholeModel) and layer.parts:
            if any(_overlap(part, each) for each in layer.parts):
                return True
            continue
        ranges = layer.ranges if isinstance(layer, Selection) else ()
        for source in layer.sources:
            if source < 0 and _overlap(part, InputPart(source, (), ranges)):
                return True
    return False


def _overlap(one: InputPart, other: InputPart) -> bool:
    """Return whether two parts have an array, or components of one, in common."""
    if one.source != other.source:
        return False
    if not (one.ranges and other.ranges):
        return True
    return any(
        begin < last and first < end
        for begin, end in one.ranges
        for first, last in other.ranges
    )
