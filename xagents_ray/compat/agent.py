"""Base of the agents of xagents, which collect settings for `train` and `play`."""

import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from xagents_ray import Callback, Evaluation, Policy, Result, UserError, load
from xagents_ray.compat import buffers
from xagents_ray.compat.agent_models import AgentModels
from xagents_ray.compat.envs import EnvList
from xagents_ray.compat.model_reader import (
    optimizer_of,
    optimizer_settings,
    warn_of_ends,
)
from xagents_ray.compat.overrides import (
    AgentLoop,
    Overridable,
    check_sees_states,
    overridden,
)
from xagents_ray.compat.reporter import Reporter
from xagents_ray.extend import (
    Algorithm,
    EnvConfig,
    Mistakes,
    TrainingConfig,
    options,
    plain_settings,
    replaced_settings,
    train_with_listeners,
)

_WRITTEN = "checkpoints", "history_checkpoint"


class CompatAgent(Overridable):
    """An agent with the interface of xagents.

    A subclass may override `at_step_start`, `train_step`, `get_states`, `get_batch` and
    `at_step_end`, which `fit` then calls in a loop in this process.

    Args:
        envs: the environments from `create_envs`.
        parts: networks from `ModelReader`, or values that `train` accepts for them;
            then a list with a replay buffer per environment, if the agent uses them.
        trial: the Optuna trial that training reports to.
        settings: settings of `train`, such as `seed`, `checkpoints` and `quiet`.
    Attributes:
        result: the result of the last `fit`; None before the first one.
    Raises:
        UserError: a setting is unknown, or a subclass overrides something else.
    """

    row: ClassVar[Algorithm]

    def __init__(
        self, envs: Sequence[Any], *parts: Any, trial: Any = None, **settings: Any
    ) -> None:
        overridden(self, CompatAgent)  # refuses what nothing would call
        names = list(dict.fromkeys(model.file for model in self.row.models))
        known = [*names, *(["buffers"] if self.row.config().replay else [])]
        given = _named(known, parts) | settings
        self.envs, self.trial = envs, trial
        self.result = None
        self._policy: Policy | None = None
        self._paths: dict[str, Any] = {}  # given again when the run is resumed
        models = {name: given.pop(name) for name in names if name in given}
        self._settings = {
            **_environments(envs),
            **self._optimizer(models),
            **self._replay(given.pop("buffers", None)),
            **given,
        }
        self._check_names(models)
        self._models = AgentModels(self.row, models, self._settings)
        self._loop = None
        warn_of_ends(self.row, models)

    def fit(
        self,
        target_reward: float | None = None,
        max_steps: int | None = None,
        monitor_session: str | None = None,
        **settings: Any,
    ) -> Result:
        """Train until the target or the number of env steps is reached.

        Training starts from the weights that the models have, and they have the
        trained ones afterwards. A second call continues the run of the first one.

        Args:
            target_reward: mean reward of a full reward buffer.
            max_steps: env steps of all environments together, including earlier calls.
            monitor_session: name of the Weights & Biases run.
            settings: settings of `train`, such as `local=True`.
        Raises:
            optuna.TrialPruned: the agent's trial was pruned.
            UserError: a setting is invalid; the message says what to do.
        """
        ends = {"target_reward": target_reward, "max_steps": max_steps}
        given = {**ends, "monitor_session": monitor_session, **settings}
        given = {name: value for name, value in given.items() if value is not None}
        if directory := self._directory:
            given = {"resume": directory, **self._paths, **given}
            self._check_weights()
        else:
            given = {**self.settings, **given}
            _check_end(given)
        if given.get("seeds") is not None:
            raise UserError(
                "seeds= trains several agents, and this is one: leave it out, or call "
                f"xagents_ray.train({self.row.name!r}, seeds=…)."
            )
        self._paths = {name: given[name] for name in _WRITTEN if name in given}
        every = self._settings.get("log_frequency") or len(self.envs)
        reporter = Reporter(self.trial, every)
        self.result = result = self._train(given, self._listeners(reporter))
        if result.directory:
            self._models.read(result.directory)
        reporter.check()
        return result

    def play(self, **settings: Any) -> Evaluation:
        """Play an episode with the agent's policy.

        Args:
            settings: settings of `Policy.play`: `render`, `video_dir`, `frame_dir`, ….
        Raises:
            UserError: there are no weights, a setting is invalid, or a subclass
                overrides `get_states`.
        """
        check_sees_states(self, "play")
        played = self.policy.play(**settings)
        if not self._settings.get("quiet"):
            print(played)
        return played

    @property
    def output_models(self) -> list[Any]:
        """The Keras models, in the order of `checkpoints`.

        During training with an overridden method and after `fit`, they have the newest
        weights.

        Raises:
            UserError: a network is only made when training starts.
        """
        models = self._models.all
        if self._loop is not None and self._models.has_unfilled:
            self._loop.refresh()
        elif self._directory and self._models.has_unfilled:
            self._models.read(self._directory)
        return models

    @property
    def model(self) -> Any:
        """The Keras model that acts; see `output_models`."""
        return self.output_models[0]

    @property
    def policy(self) -> Policy:
        """The policy that `fit` learned, or else that of the models' weights.

        Raises:
            UserError: there are no weights, or a subclass overrides `get_states`.
        """
        check_sees_states(self, "policy")
        if not self._directory or self._models.has_changed:
            return self._load()
        if self._policy is None:
            self._policy = load(self._directory)
        return self._policy

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that `fit` passes to `train` in addition to its arguments."""
        return {**self._settings, **self._models.settings}

    @property
    def total_rewards(self) -> "deque[float]":
        """Returns of the newest episodes, up to the size of the reward buffer."""
        size = self._settings.get("reward_buffer_size")
        episodes = () if self.result is None else self.result.episodes
        returns = (episode_return for _, episode_return in episodes)
        return deque(returns, size or TrainingConfig.reward_buffer_size)

    @property
    def _directory(self) -> str:
        """Directory of the run; "" before there is one."""
        return "" if self.result is None else self.result.directory

    def _optimizer(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the models' optimizers; the first is the actor's."""
        given = map(optimizer_of, models.values())
        found, *others = [optimizer_settings(each) for each in given] or [{}]
        for each in others:
            if each.get("lr", found.get("lr")) != found.get("lr"):
                found["critic_lr"] = each["lr"]
        unused = replaced_settings(options(self.row.config), found)
        return {name: value for name, value in found.items() if name not in unused}

    def _replay(self, given: Sequence[Any] | None) -> dict[str, Any]:
        if given is None:
            return {}
        return buffers.replay_settings(given, len(self.envs), self.row.on_policy)

    def _check_names(self, models: Mapping[str, Any]) -> None:
        """Raise UserError if a setting is unknown."""
        mistakes = Mistakes()
        plain_settings(self.row, {**self._settings, **dict.fromkeys(models)}, mistakes)
        mistakes.report()

    def _listeners(self, reporter: Reporter) -> list[Callback]:
        """Return what a run calls: the reporter, and this agent's methods."""
        found: list[Callback] = [] if self.trial is None else [reporter]
        if overridden(self, CompatAgent):
            self._loop = AgentLoop(self, self._models)
            found.append(self._loop)
        return found

    def _train(self, given: dict[str, Any], listeners: Sequence[Callback]) -> Result:
        self._policy = None
        if self._loop is not None:
            given = {"local": True, **given}
        try:
            with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
                given |= self._models.write(Path(folder), given)
                result = train_with_listeners(self.row.name, given, listeners)
        finally:
            self._loop = None
        assert isinstance(result, Result)  # without `seeds`
        return result

    def _check_weights(self) -> None:
        """Raise UserError if weights were changed since the last `fit`."""
        if self._models.has_changed:
            name = self.row.name.upper()
            raise UserError(
                "fit continues the run, and the models' weights were changed since: "
                f"make a new agent of them, {name}(envs, …), to start from these."
            )

    def _load(self) -> Policy:
        """Return the policy of the models' weights."""
        acts = [each.name for each in options(self.row.config) if each.acts]
        shown = {*acts, *(each.name for each in options(EnvConfig))}
        given = {k: value for k, value in self.settings.items() if k in shown}
        with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
            weights = self._models.write_acting(Path(folder))
            if weights is None:
                raise UserError(
                    "This agent has learned nothing yet: call fit, or load_weights of "
                    "its first model."
                )
            return load(weights, agent=self.row.name, **given)


def _named(names: Sequence[str], parts: Sequence[Any]) -> dict[str, Any]:
    if len(parts) > len(names):
        raise UserError(
            f"An agent takes environments and then {', '.join(names)} by position, got "
            f"{1 + len(parts)} arguments: give settings by name, as in seed=1."
        )
    return dict(zip(names, parts, strict=False))


def _check_end(given: Mapping[str, Any]) -> None:
    """Raise UserError unless settings of `train` say when a run ends."""
    ends = "target_reward", "max_steps", "preset", "resume"
    if all(given.get(name) in (None, False) for name in ends):
        raise UserError(
            "fit needs an end: give target_reward=, max_steps= or both, as in "
            "agent.fit(max_steps=100_000)."
        )


def _environments(envs: Any) -> dict[str, Any]:
    if isinstance(envs, EnvList):
        return envs.settings
    spec = getattr(next(iter(envs), None), "spec", None)
    if spec is None:
        raise UserError(
            "Training makes environments of its own: give create_envs(NAME, N), where "
            "NAME may also be a class or a function that makes one."
        )
    return {"env": spec, "n_envs": len(envs)}
