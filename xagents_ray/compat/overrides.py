"""Subclasses of agents that override methods of the training loop."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from xagents_ray import Result, RunContext, UserError
from xagents_ray.compat.agent_models import AgentModels
from xagents_ray.compat.same_form import like
from xagents_ray.extend import Hooks, Trajectory

HOOKS = ("at_step_start", "train_step", "get_states", "get_batch", "at_step_end")
"""Methods that a subclass may override."""
_IN_XAGENTS = frozenset(
    "add_grads calculate_fvp calculate_grads calculate_kl_divergence calculate_losses "
    "calculate_returns check_checkpoints check_episodes checkpoint clip_last_step "
    "concat_buffer_samples concat_step_batches conjugate_gradients display_message "
    "display_metrics fill_buffers flat_to_steps flat_to_weights get_action_indices "
    "get_actions get_distribution get_dones get_mini_batches get_model_outputs "
    "get_step_actions get_targets init_from_checkpoint init_training np_train_step "
    "report_rewards reset_envs run_ppo_epochs set_action_count set_batch_shapes "
    "set_seeds step_envs store_batch sync_target_model sync_target_models "
    "training_done update_actor_weights update_avg_weights update_critic_weights "
    "update_epsilon update_gradients update_history update_metrics update_weights "
    "weights_to_flat model output_models".split()
)
"""Other methods and attributes of agents in xagents, which nothing here calls."""
_RAW = ("eval_every", "monitor_session", "her")
"""Settings whose evaluations or goals see the unchanged observations."""


def overridden(agent: Any, base: type) -> frozenset[str]:
    """Return the methods of the loop that an agent's class or the agent overrides.

    Args:
        agent: the agent.
        base: base class of agents.
    Raises:
        UserError: another method of agents is overridden.
    """
    kind = type(agent)
    own = {name for name, value in vars(agent).items() if callable(value)}
    own &= _IN_XAGENTS.union(HOOKS)
    for each in kind.__mro__[: kind.__mro__.index(base)]:
        own |= vars(each).keys()
    names = {name for each in base.__mro__ for name in vars(each)}
    private = {n for n in names if n[0] == "_" and not n.endswith("__")}
    if refused := sorted(own & (_IN_XAGENTS | private)):
        raise UserError(
            f"{kind.__name__} overrides {refused[0]}, which training here never calls: "
            "use callbacks=[…] of fit, or an algorithm of your own, see "
            f"xagents_ray.register. A subclass may override {', '.join(HOOKS)}."
        )
    for name in sorted(own.intersection(HOOKS)):
        if hasattr(getattr(agent, name), "get_concrete_function"):
            raise UserError(
                f"{kind.__name__}.{name} is a tf.function, which would be called once: "
                "leave out the decorator; updates are compiled anyway."
            )
    return frozenset(own.intersection(HOOKS))


def bypasses_states(agent: Any, name: str) -> str:
    """Return a sentence if an agent overrides `get_states`, which a caller bypasses.

    Args:
        agent: the agent.
        name: method or setting that sees the unchanged observations.
    """
    if getattr(agent.get_states, "__func__", None) is Overridable.get_states:
        return ""
    return (
        f"{name} doesn't go through get_states of {type(agent).__name__}: give the "
        "agent state_to_input= in place of the override"
    )


def check_sees_states(agent: Any, name: str) -> None:
    """Raise UserError if there is such a sentence; see `bypasses_states`."""
    if sentence := bypasses_states(agent, name):
        raise UserError(f"{sentence}.")


class AgentLoop(Hooks):
    """The training loop of a run, in which an agent's methods are called.

    Args:
        agent: the agent.
        models: models of the agent.
    Attributes:
        context: state of the run; None before it starts.
        states: newest observations [B, *observation_shape]; a dict of arrays if there
            are several.
    """

    def __init__(self, agent: Any, models: AgentModels) -> None:
        self._agent, self._models = agent, models
        self.__name__ = type(agent).__name__  # by which errors call it
        self.context: RunContext | None = None
        self.states: Any = None
        self._reason: str | None = None
        self._failure: Exception | None = None  # of the run, within train_step
        self._updates = 0  # in this step
        self._batches: list[Trajectory] = []  # of this rollout, one at most

    def check(self, settings: Mapping[str, Any]) -> Sequence[str]:
        """Refuse settings that bypass `get_states`; note what else does."""
        for name in _RAW:
            if settings.get(name) is not None:
                check_sees_states(self._agent, f"{name}=")
        note = bypasses_states(self._agent, "A policy that is loaded from this run")
        return [note] if note else []

    def name_of(self, method: str) -> str:
        """Return the agent's method that a method of this class calls."""
        names = {"observations": "get_states", "batch": "get_batch"}
        return f"{self.__name__}.{names[method]}"

    def attach(
        self,
        read: Callable[[Sequence[str]], Mapping[str, npt.NDArray[Any]]],
        load: Callable[[Mapping[str, npt.NDArray[Any]]], None],
        named: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """Keep the functions for use in the run."""
        self._read, self._load, self._named = read, load, named

    def on_start(self, ctx: RunContext) -> None:
        """Keep the state of the run, and read the weights that it starts from."""
        self.context = ctx
        self.refresh()

    def refresh(self) -> None:
        """Give the models the learner's newest weights."""
        if names := self._models.names:
            self._models.take(self._read(names))

    def step(self, update: Callable[[], str | None]) -> str | None:
        """Run one step of the loop with the agent's methods."""
        self._update, self._updates, self._reason = update, 0, None
        self._call("at_step_start")
        self._call("train_step")
        if not self._updates:
            raise self._error("train_step", "which does the update")
        self._call("at_step_end")
        self._give_weights()
        return self._reason

    def _call(self, method: str) -> None:
        """Call a method of the agent; its errors name it, but not those of the run."""
        with self._named(f"{self.__name__}.{method}"):
            try:
                getattr(self._agent, method)()
            except Exception as error:
                if error is not self._failure:
                    raise
        if self._failure is not None:
            raise self._failure

    def update(self) -> None:
        """Collect and learn once, unless the run is over."""
        self._updates += 1
        if self._reason is None:
            self._give_weights()
            try:
                self._reason = self._update()
            except Exception as error:
                self._failure = error
                raise
            self.refresh()

    def observations(self, observations: Any) -> Any:
        """Return what the agent's `get_states` makes of observations."""
        self.states = observations
        return like(
            observations, self._agent.get_states(), f"{self.__name__}.get_states"
        )

    def batch(self, collect: Callable[[], Trajectory]) -> Trajectory:
        """Return what the agent's `get_batch` makes of a rollout."""
        self._collect, self._batches = collect, []
        given = self._agent.get_batch()
        if not self._batches:
            raise self._error("get_batch", "which steps the environments")
        (batch,) = self._batches
        if not isinstance(given, type(batch)):
            raise UserError(
                f"{self.__name__}.get_batch returned {type(given).__name__}: return "
                "what super().get_batch() gave, with other arrays in it by _replace()."
            )
        fields: dict[str, Any] = {
            name: like(
                array, getattr(given, name), f"{self.__name__}.get_batch: {name}"
            )
            for name, array in batch._asdict().items()
            if isinstance(array, np.ndarray | dict)
        }
        return batch._replace(**fields)

    def collect(self) -> Trajectory:
        """Step the environments for a rollout; return it."""
        if self._batches:
            raise UserError(
                f"{self.__name__}.get_batch calls super().get_batch() twice, and the "
                "first rollout would be lost: call it once."
            )
        self._batches = [self._collect()]
        return self._batches[0]

    def _give_weights(self) -> None:
        """Load the models' weights into the learner if the agent changed them."""
        if self._models.has_changed:
            self._load(self._models.arrays())
            self.refresh()

    def _error(self, name: str, what: str) -> UserError:
        return UserError(
            f"{self.__name__}.{name} doesn't call super().{name}(), {what}: call it, "
            "or write an algorithm of your own, see xagents_ray.register."
        )


class Overridable:
    """Methods of agents that a subclass may override, and the progress of training.

    Attributes:
        result: the result of the last `fit`; None before the first one.
    """

    result: Result | None
    _loop: AgentLoop | None  # while `fit` runs overridden methods

    def at_step_start(self) -> None:
        """Called before each `train_step`; does nothing unless overridden."""

    def train_step(self) -> None:
        """Run one update: step the environments for a rollout, and learn."""
        self._running("train_step").update()

    def get_states(self) -> Any:
        """Return the newest observations, [B, *observation_shape].

        The policy acts on the result, and learns from it. Images are single frames,
        which are stacked afterwards. A policy that is loaded from the run gets the
        unchanged observations.
        """
        return self._running("get_states").states

    def get_batch(self) -> Trajectory:
        """Step the environments for a rollout; return it to learn from or to store.

        To change it, return `batch._replace(rewards=…)`.
        """
        return self._running("get_batch").collect()

    def at_step_end(self) -> None:
        """Called after each `train_step`; does nothing unless overridden."""

    @property
    def steps(self) -> int:
        """Env steps so far, of all environments together."""
        state = self._state
        return 0 if state is None else state.env_steps

    @property
    def games(self) -> int:
        """Number of episodes that ended."""
        state = self._state
        if isinstance(state, RunContext):
            return state.episodes
        return 0 if state is None else state.games

    @property
    def mean_reward(self) -> float:
        """Mean return of the newest episodes; -inf before the first one."""
        return self._reward("mean_reward")

    @property
    def best_reward(self) -> float:
        """Largest mean reward of a full reward buffer; -inf before there is one."""
        return self._reward("best_reward")

    @property
    def _state(self) -> RunContext | Result | None:
        """The run in progress, or else the result of the last one."""
        if self._loop is not None and self._loop.context is not None:
            return self._loop.context
        return self.result

    def _reward(self, name: str) -> float:
        value = getattr(self._state, name, None)
        return -math.inf if value is None else float(value)

    def _running(self, name: str) -> AgentLoop:
        if self._loop is None:
            raise UserError(
                f"{name} is part of the loop of fit, which calls it if a subclass "
                "overrides it: call fit."
            )
        return self._loop
