"""Option of recurrent layers in default networks."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError, shown
from xagents_ray.networks.layout import Layout, check_parameters
from xagents_ray.networks.recurrent import GRU, LSTM, Recurrent, with_memory
from xagents_ray.settings.algorithm import AlgorithmConfig, Group
from xagents_ray.settings.options import flag, option, shared

_KINDS: dict[str, type[Recurrent]] = {"gru": GRU, "lstm": LSTM}
_MOST_UNITS = 65_536


@dataclass(frozen=True, kw_only=True)
class Memory(Group):
    """Setting of algorithms whose default networks may have a recurrent layer."""

    memory: str | None
    feature_maker: str | None = None
    model: str | None = None
    actor_model: str | None = None
    critic_model: str | None = None

    @property
    def layer(self) -> tuple[type[Recurrent], int] | None:
        """Class and units of the layer; None without memory."""
        kind, _, units = (self.memory or "").partition(":")
        if kind not in _KINDS or not (units.isascii() and units.isdecimal()):
            return None
        return _KINDS[kind], int(units)

    def check_settings(self) -> None:
        """Raise UserError when it names no layer, or networks are given."""
        if self.memory is None:
            return
        if self.layer is None or not 1 <= self.layer[1] <= _MOST_UNITS:
            raise UserError(
                "--memory takes a kind of layer and its units, such as lstm:128 or "
                f"gru:64, got {shown(self.memory)}."
            )
        kind, _, units = self.memory.partition(":")
        for name in ("model", "actor_model", "critic_model", "feature_maker"):
            if getattr(self, name) is not None:
                raise UserError(
                    f"--memory adds a layer to default networks, and {flag(name)} "
                    f"replaces one: leave it out, or add a section [{kind}-0] with "
                    f"units={int(units)} to a .cfg file."
                )


memory = shared(
    option,
    "Recurrent layer with this many units after the layers that the outputs of the "
    "default network share, for environments that don't show everything at once: "
    "lstm:128, gru:64; sections [lstm-0] and [gru-0] add one to a network of your own",
    acts=True,
    expected="a kind of layer and its units, such as lstm:128",
    known_as=("use_lstm", "lstm", "gru", "recurrent", "rnn", "lstm_hidden_size"),
    group=Memory,
)


def add_memory(layout: Layout, config: AlgorithmConfig) -> Layout:
    """Return a default network with a recurrent layer, if it is enabled.

    Raises:
        UserError: memory can't hold the network.
    """
    group = config.part(Memory)
    if group is None or group.layer is None:
        return layout
    layout = with_memory(layout, *group.layer)
    check_parameters(layout, f"--memory {group.memory}")
    return layout
