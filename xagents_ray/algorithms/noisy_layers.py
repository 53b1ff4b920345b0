"""Options of noise on the weights of networks (NoisyNet)."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras_files
from xagents_ray.networks.layout import Layout, check_parameters
from xagents_ray.networks.noisy import FACTORISED, INDEPENDENT, with_noise
from xagents_ray.settings.algorithm import AlgorithmConfig, Group
from xagents_ray.settings.options import option, positive, shared


@dataclass(frozen=True, kw_only=True)
class NoisyLayers(Group):
    """Settings of algorithms that support noisy layers, arXiv:1706.10295."""

    noisy: str | None
    noisy_sigma: float | None = None
    model: str | None = None
    actor_model: str | None = None

    def check_settings(self) -> None:
        """Raise UserError when the noise is configured but not enabled."""
        if self.noisy_sigma is not None and self.noisy is None:
            raise UserError("--noisy-sigma is for --noisy: add that.")

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the settings are used with continuous actions."""
        if self.noisy is not None and not spec.is_discrete:
            raise UserError(
                f"--noisy {self.noisy} is for discrete actions and this environment's "
                "are continuous: use --sde-frequency, or leave it out."
            )


noisy = shared(
    option,
    "Noise on the weights of dense layers, with a learned standard deviation, which "
    "each environment draws for a whole rollout; its actions are sampled from the "
    "policy that results",
    choices=(FACTORISED, INDEPENDENT),
    acts=True,
    known_as=("noisy_nets",),
    group=NoisyLayers,
)
noisy_sigma = shared(
    positive,
    "Initial standard deviation of this noise; if factorised, divided by the "
    "square root of the layer's inputs. Default: 0.5, or 0.017 if independent",
    known_as=("sigma0",),
)


def add_noise(layout: Layout, config: AlgorithmConfig) -> Layout:
    """Return a policy's network, with noisy layers if they are enabled.

    Raises:
        UserError: the network is a Keras model, whose layers can't be changed, or
            memory can't hold them.
    """
    group = config.part(NoisyLayers)
    if group is None or group.noisy is None:
        return layout
    file = group.model or group.actor_model
    if keras_files.content(file) is not None:
        raise UserError(
            f"--noisy changes layers of the network and {file} is a Keras model: give "
            "a .cfg file, or leave it out."
        )
    layout = with_noise(layout, group.noisy, group.noisy_sigma)
    check_parameters(layout, file or "The default network")
    return layout
