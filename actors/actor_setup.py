"""The settings that an env actor is made from."""

from dataclasses import dataclass

import numpy as np

from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.actors.policies.base import ActorPolicy
from xagents_ray.actors.policies.served import ServedNetwork
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import EnvSpec, InfoField
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.config import Config


@dataclass(frozen=True)
class ActorSetup:
    """Settings of an env actor.

    Attributes:
        algorithm: the algorithm whose policy acts.
        config: the config of the run.
        layout: the layout of the network that acts.
        seed: the seed of the run; environment i gets seed + i.
        first_env: index of this actor's first environment among all of the run.
        n_envs: number of environments of this actor.
        env_threads: number of cores that the environments may use.
        definitions: serialized definitions to install in the actor's process.
        first_index: index that the first environment's factory receives; None for
            `first_env`.
        info: entries of `info` that trajectories hold.
        has_action_masks: whether the environments give masks.
        is_served: whether the learner's process may compute the network.
        onnx_rows: number of observations on which ONNX Runtime acts with each version
            of the weights; 0 to compute the whole network in NumPy.
    """

    algorithm: Algorithm
    config: Config
    layout: Layout
    seed: int
    first_env: int
    n_envs: int
    env_threads: int
    definitions: tuple[bytes, ...] = ()
    first_index: int | None = None
    info: tuple[InfoField, ...] = ()
    has_action_masks: bool = False
    is_served: bool = False
    onnx_rows: float = 0

    @classmethod
    def of(
        cls,
        run: RunSpec,
        n_envs: int,
        first_env: int = 0,
        env_threads: int | None = None,
        definitions: tuple[bytes, ...] = (),
        first_index: int | None = None,
        is_served: bool = False,
        onnx_rows: float = 0,
    ) -> "ActorSetup":
        """Return the setup of one env actor of a run; see the class for arguments.

        Without `env_threads`, the environments may use all cores of the run.
        """
        return cls(
            run.algorithm,
            run.config,
            run.layout,
            run.seed,
            first_env,
            n_envs,
            env_threads or run.cores,
            definitions,
            first_index,
            run.spec.info,
            run.spec.has_action_masks,
            is_served,
            onnx_rows,
        )

    @property
    def places(self) -> Array:
        """Relative indices of the environments in the run, float64 [B], from 0 to 1."""
        own = np.arange(self.first_env, self.first_env + self.n_envs)
        places: Array = own / max(1, self.config.env.n_envs - 1)
        return places

    def make_envs(self) -> Envs:
        """Create the environments; raise UserError if that fails."""
        install_definitions(self.definitions)
        first = self.first_env if self.first_index is None else self.first_index
        envs = make_envs(self.config.env, self.n_envs, self.env_threads, first)
        if self.has_action_masks:
            envs.read_masks()
        return envs

    def make_policy(self, spec: EnvSpec) -> ActorPolicy:
        """Return the policy, without weights, for environments with this spec."""
        kind = resolve_class("policy", self.algorithm.policy)
        policy: ActorPolicy = kind(self.config.algorithm, spec, self.layout)
        if self.is_served:
            policy.served = ServedNetwork(self.first_env, self.n_envs)
        policy.onnx_rows, policy.onnx_threads = self.onnx_rows, self.env_threads
        return policy
