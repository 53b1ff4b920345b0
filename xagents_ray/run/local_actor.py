"""The env actor of a run in this process."""

from typing import Any

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.halves import HalvedEnvActor
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.inference import slots_of
from xagents_ray.run.hooked_actor import HookedActor
from xagents_ray.run.learner_access import learner_gpus
from xagents_ray.watch.hooks import Hooks


def make_local_actor(run: RunSpec, learner: Any, hooks: Hooks | None) -> Any:
    """Return the env actor, for which the learner acts if the run says so.

    Args:
        run: the run.
        learner: the run's learner, in this process.
        hooks: the callback that changes what the actor returns, if any.
    """
    n_envs, actor = run.config.env.n_envs, None
    # Hooks get the observations of all environments at once, by default.
    is_free = hooks is None or run.config.placement.inference != "auto"
    if is_free and run.serves(bool(learner_gpus()), shares_process=True):
        learner.serve(slots_of(0, n_envs), run.served_versions)
        actor = HalvedEnvActor(ActorSetup.of(run, n_envs, is_served=True))
    onnx_rows = run.onnx_rows(n_envs)
    made = actor or EnvActor(ActorSetup.of(run, n_envs, onnx_rows=onnx_rows))
    if hooks is None:
        return made
    return HookedActor(made, hooks, str(run.config.env.env))
