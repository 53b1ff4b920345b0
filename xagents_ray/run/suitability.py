"""Checks of settings against the algorithm, the networks and the environment."""

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.policy_gradient import ActionRange
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx_trunk import is_installed, trunk_places
from xagents_ray.settings.config import Config


def check_shared(algorithm: Algorithm, config: Config) -> None:
    """Raise UserError if several learners can't share the algorithm's updates."""
    name, learner = algorithm.name, algorithm.learner
    if config.algorithm.learns_each_rollout:
        raise UserError(
            f"--n-learners shares the rows of an update, and {name} learns from one "
            "env actor's at a time: leave it out, or train a2c."
        )
    if not (isinstance(learner, str) and learner.startswith("xagents_ray.learners.")):
        raise UserError(
            f"--n-learners shares updates of the algorithms of xagents-ray, and {name} "
            "is your own: leave it out."
        )


def check_onnx(layout: Layout) -> None:
    """Raise UserError if ONNX Runtime can't compute a part of the network."""
    if not trunk_places(layout):
        raise UserError(
            "--inference onnx is for networks with convolutions of images, and the one "
            "that acts here has none: leave it out."
        )
    if not is_installed():
        raise UserError(
            "--inference onnx needs onnx and onnxruntime: pip install "
            "'xagents-ray[onnx]', or leave it out."
        )


def check_effects(algorithm: Algorithm, config: Config, spec: EnvSpec) -> None:
    """Raise UserError for a setting without effect on these spaces or this agent."""
    if config.run.checkpoint_replay and config.algorithm.replay is None:
        raise UserError(
            "--checkpoint-replay has no effect without a replay buffer, and "
            f"{algorithm.name} has none here: leave it out."
        )
    actions = config.algorithm.part(ActionRange)
    if spec.is_discrete and actions is not None and not actions.action_scaling:
        raise UserError(
            "--no-action-scaling is for continuous actions and this environment's are "
            "discrete: leave it out."
        )
