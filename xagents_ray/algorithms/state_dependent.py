"""Standard deviations of continuous actions, shared or state-dependent (gSDE)."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras_files
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.state_dependent import with_log_std
from xagents_ray.settings.algorithm import AlgorithmConfig, Group
from xagents_ray.settings.options import flag, option, shared


@dataclass(frozen=True, kw_only=True)
class StateDependent(Group):
    """Settings of algorithms that support gSDE, arXiv:2005.05719."""

    init_log_std: float
    sde_frequency: int | None

    @property
    def uses_sde(self) -> bool:
        """Whether the network outputs the deviations of continuous actions."""
        return self.sde_frequency is not None

    @property
    def shared_log_std(self) -> float | None:
        """Initial log standard deviation that all states share; None with gSDE."""
        return None if self.uses_sde else self.init_log_std

    @property
    def sde_steps(self) -> int:
        """Maximum number of env steps for which a noise matrix is used."""
        frequency = self.sde_frequency or 0
        return self.config.batch_steps if frequency < 0 else frequency

    def check_settings(self) -> None:
        """Raise UserError when `sde_frequency` is 0."""
        if self.sde_frequency == 0:
            raise UserError(
                "--sde-frequency takes 1 or more steps, or -1 for those of a rollout, "
                "got 0; leave it out for independent noise."
            )

    def check_spec(self, spec: EnvSpec) -> None:
        """Raise UserError when the settings are used with discrete actions."""
        for name in self.config.not_default("sde_frequency", "init_log_std"):
            if spec.is_discrete:
                raise UserError(
                    f"{flag(name)} {getattr(self, name)} is for continuous actions and "
                    "this environment's are discrete: leave it out."
                )


init_log_std = shared(
    option,
    "Logarithm of the standard deviation that continuous actions start with, before "
    "--action-scaling, or that of the numbers in the matrices of --sde-frequency; it "
    "is learned from then on",
    low=-20,
    high=20,
    hp_type="categorical",
    known_as=("log_std_init", "initial_log_std", "log_std"),
)
sde_frequency = shared(
    option,
    "State-dependent exploration (gSDE): continuous actions get noise that is "
    "linear in the policy's features, with a matrix that each environment draws "
    "at the beginning of an episode and every so many steps; -1 for the steps of "
    "a rollout; default: independent noise in each step",
    low=-1,
    high=1_000_000,
    unit="steps",
    hp_type="categorical",
    acts=True,
    known_as=("sde_sample_freq", "use_sde", "sde", "gsde", "use_gsde"),
    group=StateDependent,
)


def noise_of(config: AlgorithmConfig) -> StateDependent:
    """Return an algorithm's settings for the deviations of its actions."""
    group = config.part(StateDependent)
    assert group is not None, f"{type(config).__name__} has no --sde-frequency"
    return group


def add_log_std(
    layout: Layout,
    config: AlgorithmConfig,
    file: str | None,
    output: int | None = None,
    learns_features: bool = False,
) -> Layout:
    """Return a policy's network, with the deviations of actions if gSDE is enabled.

    Args:
        layout: layout of the network.
        config: settings of the algorithm.
        file: the network's file, or None.
        output: see `networks.state_dependent.with_log_std`.
        learns_features: see `networks.state_dependent.with_log_std`.
    Raises:
        UserError: the network is a Keras model, whose layers can't be changed.
    """
    if not config.uses_sde:
        return layout
    if keras_files.content(file) is not None:
        raise UserError(
            f"--sde-frequency adds a layer to the network and {file} is a Keras "
            "model: give a .cfg file, or leave it out."
        )
    start = noise_of(config).init_log_std
    return with_log_std(layout, start, output, learns_features)
