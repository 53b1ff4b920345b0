"""Options and networks of policy-gradient algorithms."""

from dataclasses import dataclass

from xagents_ray.algorithms import noisy_layers, state_dependent
from xagents_ray.algorithms.definition import Model
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_files
from xagents_ray.networks.layout import Layout
from xagents_ray.settings import schedules
from xagents_ray.settings.algorithm import AlgorithmConfig, Group, RolloutGroup
from xagents_ray.settings.options import (
    coefficient,
    count,
    fraction,
    option,
    positive,
    shared,
)


@dataclass(frozen=True, kw_only=True)
class Rollouts(RolloutGroup):
    """Settings of algorithms that learn from each rollout when it arrives."""

    n_steps: int
    mini_batches: int = 1

    @property
    def batch_steps(self) -> int:
        return self.n_steps

    def update_rows(self, n_envs: int) -> int:
        return -(-self.n_steps * n_envs // self.mini_batches)

    def check_batch(self, n_envs: int) -> None:
        """Raise UserError when there are more mini-batches than samples."""
        if self.mini_batches > self.n_steps * n_envs:
            raise UserError(
                f"--mini-batches {self.mini_batches} is more than the batch of "
                f"{self.n_steps * n_envs} samples (--n-steps x --n-envs): lower it."
            )


@dataclass(frozen=True, kw_only=True)
class PolicyAndValue(Group):
    """Settings of one network with two outputs: the policy and the value."""

    model: str | None
    separate_networks: bool

    def adapted(self, layout: Layout) -> Layout:
        """Return the network, with separate layers for the value if enabled.

        Raises:
            UserError: the network is a Keras model, whose layers can't be changed.
        """
        if not self.separate_networks:
            return layout
        if keras_files.content(self.model) is not None:
            raise UserError(
                "--separate-networks copies the layers of .cfg files, not of Keras "
                "models: drop it, and give each output layers of its own in the model."
            )
        return layout.separated()


@dataclass(frozen=True, kw_only=True)
class ActionRange(Group):
    """Setting of the range in which Gaussian actions are drawn."""

    action_scaling: bool

    @property
    def scales_actions(self) -> bool:
        """Whether Gaussian actions are drawn in [-1, 1] and scaled to finite bounds."""
        return self.action_scaling


n_steps = shared(
    count,
    "Transition steps of each environment per update",
    unit="vector steps",
    hp_type="categorical",
    known_as=("num_steps", "rollout_steps"),
    remedy_for="transport",
    group=Rollouts,
    common=True,
)
entropy_coef = shared(
    coefficient,
    "Entropy coefficient for loss calculation, or a schedule as --lr takes it",
    known_as=("ent_coef", "entropy_coeff"),
    scheduled=True,
    to_plain=schedules.plain_schedule,
    takes="ScheduleLike",
    common=True,
)
grad_norm = shared(
    positive,
    "Largest global norm of the gradient; larger ones are scaled to it",
    known_as=("max_grad_norm", "grad_clip"),
)
value_loss_coef = shared(
    coefficient,
    "Value loss coefficient for value loss calculation",
    known_as=("vf_coef", "value_coef", "vf_loss_coeff"),
)
lam = shared(
    fraction,
    "GAE-Lambda for advantage estimation",
    known_as=("gae_lambda", "lambda_"),
    common=True,
)
mini_batches = shared(
    count,
    "Number of mini-batches to use per pass",
    hp_type="categorical",
    known_as=("num_minibatches", "n_minibatches"),
    common=True,
)
normalize_advantages = shared(
    option,
    "If specified, the policy's advantages are shifted and scaled to a mean "
    "of 0 and a deviation of 1",
    known_as=("normalize_advantage", "norm_adv", "standardize_advantages"),
)
NORMALIZED = (
    "Shift and scale the policy's advantages to a mean of 0 and a deviation of 1; "
    "--no-normalize-advantages learns from them as they are"
)
"""Help of `normalize_advantages` for algorithms that enable it by default."""
advantage_epsilon = shared(
    positive,
    "Value added to the standard deviation that advantages are divided by",
    needs=("normalize_advantages",),
)
action_scaling = shared(
    option,
    "Draw each component of continuous actions that has two finite bounds in the "
    "range from -1 to 1, and scale it to them; --no-action-scaling draws it in the "
    "environment's units, which weights of earlier versions need",
    acts=True,
    known_as=("normalize_actions",),
    group=ActionRange,
)
separate_networks = shared(
    option,
    "If specified, the policy and the value share no layers: the value has copies "
    "of those before the policy's output",
    acts=True,
    known_as=("share_features_extractor", "vf_share_layers"),
    group=PolicyAndValue,
)


def _adapt(layout: Layout, config: AlgorithmConfig) -> Layout:
    layout = noisy_layers.add_noise(layout, config)
    network = config.part(PolicyAndValue)
    if network is None:
        return layout
    return state_dependent.add_log_std(network.adapted(layout), config, network.model)


ACTOR_CRITIC = Model(
    "policy",
    "actor-critic-{kind}.cfg",
    ("actions", "value"),
    has_log_std=True,
    gives_logits=True,
    adapt=_adapt,
)
"""One network with two outputs: the policy and the value."""
