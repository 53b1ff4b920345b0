"""Settings of learning from sequences, which networks with memory need."""

from collections.abc import Sequence
from dataclasses import dataclass

from xagents_ray.algorithms.policy_gradient import Rollouts
from xagents_ray.core.errors import UserError
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig, Group
from xagents_ray.settings.options import count, shared


@dataclass(frozen=True, kw_only=True)
class ReplayedSequences(Group):
    """Setting of algorithms that replay sequences if their network has memory."""

    burn_in: int
    n_step: int
    rollout_length: int

    @property
    def learned_steps(self) -> int:
        """Steps of a sequence that are learned from."""
        return self.rollout_length - self.burn_in

    def check_settings(self) -> None:
        """Raise UserError when nothing of a sequence would be learned from."""
        if self.learned_steps <= 0:
            raise UserError(
                f"--burn-in {self.burn_in} leaves nothing to learn from in sequences "
                f"of --rollout-length {self.rollout_length}: lower it, or raise "
                "--rollout-length."
            )

    def check_targets(self) -> None:
        """Raise UserError when the targets of no step have all of their rewards."""
        if self.n_step > self.learned_steps:
            raise UserError(
                f"--n-step {self.n_step} is more than the {self.learned_steps} steps "
                "of each sequence that a network with memory learns from: lower it, or "
                "raise --rollout-length."
            )


burn_in = shared(
    count,
    "With memory, steps at the beginning of each replayed sequence, of "
    "--rollout-length steps, that only bring the state of the recurrent layers up to "
    "date, because older weights left the stored one",
    low=0,
    unit="steps",
    hp_type="categorical",
    known_as=("replay_burn_in", "burn_in_length"),
    group=ReplayedSequences,
)


def check_sequences(
    config: AlgorithmConfig, layouts: Sequence[Layout], n_envs: int
) -> None:
    """Raise UserError when settings don't fit networks with memory, or without.

    Args:
        config: the algorithm's settings.
        layouts: layouts of its networks; the last one learns from mini-batches.
        n_envs: number of environments.
    """
    replayed, rollouts = config.part(ReplayedSequences), config.part(Rollouts)
    if replayed is not None and replayed.burn_in and not layouts[0].state_units:
        raise UserError(
            f"--burn-in {replayed.burn_in} is for networks with memory: add --memory "
            "lstm:128, or leave it out."
        )
    if layouts[0].state_units and replayed is not None:
        replayed.check_targets()
    if layouts[0].state_units and config.relabels_goals:
        raise UserError(
            "--her gives single transitions other goals, and a network with memory "
            "learns from sequences: leave out --her or the memory."
        )
    parts = 1 if rollouts is None else rollouts.mini_batches
    if layouts[-1].state_units and parts > n_envs:
        raise UserError(
            f"--mini-batches {parts} is more than --n-envs {n_envs}, and with memory "
            "each mini-batch has whole sequences of some environments: lower it, or "
            "raise --n-envs."
        )
