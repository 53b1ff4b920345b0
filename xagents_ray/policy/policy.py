"""A trained policy that acts without TensorFlow and Ray."""

from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np

from xagents_ray.core.process import one_blas_thread
from xagents_ray.core.python_calls import python_call
from xagents_ray.core.trajectory import Array, arrays_of
from xagents_ray.policy import episodes as playing
from xagents_ray.policy import onnx_export
from xagents_ray.policy.conversion import Conversion
from xagents_ray.policy.loading import LoadedPolicy, save_weights
from xagents_ray.policy.sampling import Sampler
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import check_known, options
from xagents_ray.settings.paths import local_path

if TYPE_CHECKING:
    import gymnasium as gym


class Policy:
    """A trained policy: choose actions, evaluate, play, save and export it.

    `xagents_ray.load` returns one, which acts with NumPy alone, and can be pickled.

    Observations are those of `make_env()`: float32 in the environment's shape, or, for
    images, uint8 frames [frame_stack, H, W(, C)], the newest last ([H, W(, C)] with a
    frame stack of 1); a dict of these for a Dict or Tuple with images. Parts of a Dict,
    Tuple or discrete space may also be passed as the original environment returns them.

    Attributes:
        agent: name of the algorithm, such as `ppo`.
        env_id: ID of the environment that the policy was trained in.
        source: path of the checkpoint or weights file that was loaded.
        card: env steps, rewards and seed of training, as far as they are known.
        notes: notes for the user, one sentence each.

    >>> policy = xagents_ray.load("last")
    >>> policy
    <Policy: ppo of CartPole-v1 from runs/ppo/CartPole-v1/first/...>
    >>> env = policy.make_env()
    >>> observation, info = env.reset(seed=1)
    >>> action, _ = policy.predict(observation)
    >>> step = env.step(action)
    """

    def __init__(self, trained: LoadedPolicy, seed: int | None = None) -> None:
        from xagents_ray.actors.actor_setup import ActorSetup

        run = trained.run
        self.agent, self.env_id = run.algorithm.name, str(run.config.env.env)
        self.source, self.card, self.notes = trained.source, trained.facts, run.notes
        self._trained, self._run, self._spec = trained, run, run.spec
        self._actor = ActorSetup.of(run, 1).make_policy(run.spec)
        self._actor.load(trained.weights)
        self.set_random_seed(seed)

    def __repr__(self) -> str:
        return f"<Policy: {self.agent} of {self.env_id} from {self.source}>"

    def __reduce__(self) -> Any:
        return Policy, (self._trained,)

    @property
    def observation_space(self) -> "gym.spaces.Box":
        """Space of one observation for `predict`.

        >>> xagents_ray.load("last").observation_space.shape
        (4,)
        """
        return self._conversion.spaces[0]  # type: ignore[no-any-return]

    @property
    def action_space(self) -> "gym.spaces.Space[Any]":
        """Space of one action of `predict`.

        >>> xagents_ray.load("last").action_space
        Discrete(2)
        """
        return self._conversion.spaces[1]  # type: ignore[no-any-return]

    def make_env(self, render_mode: str | None = None) -> "gym.Env[Any, Any]":
        """Make the environment as the policy sees it: preprocessed, frames stacked.

        At the beginning of an episode, frame stacks are padded with zeros. Gymnasium's
        NormalizeObservation and NormalizeReward use the statistics of training.

        Args:
            render_mode: `human` or `rgb_array`, passed to the environment.
        Returns:
            A Gymnasium environment with unmodified rewards.
        Raises:
            UserError: it can't be made, or your factory makes vector environments only.

        >>> env = xagents_ray.load("last").make_env()
        >>> observation, info = env.reset(seed=1)
        >>> observation.shape
        (4,)
        """
        from xagents_ray.actors.envs.make import make_stacked

        config, arrays = self._run.config.env, self._trained.weights.arrays
        return make_stacked(config, self._spec.stack, render_mode, arrays)

    def predict(
        self,
        observation: Any,
        state: Array | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: Any = None,
    ) -> tuple[Any, Array | None]:
        """Choose actions, with the interface of Stable-Baselines3's `predict`.

        Args:
            observation: one observation, or a batch of them [B, ...]; see the class.
            state: state [B, n] that the previous call returned; None at first. Only
                memory and lasting noise have one: `--noise`, `--sde-frequency`.
            episode_start: bool [B], which observations begin an episode; their state
                is reset.
            deterministic: whether to take the most likely actions instead of sampling
                them as in training, with `--epsilon-end` for epsilon-greedy agents, but
                without noise on weights that lasts for a rollout.
            action_masks: the actions that are allowed, 0 or 1 [action_units] or a
                batch; needed if the environment gives masks, which `make_env()` has in
                `info["action_mask"]`.
        Returns:
            One action for one observation, a NumPy integer or an array; else a batch
            [B, ...]. Actions have the environment's bounds and dtype. Second, the
            state for the next call, or None.
        Raises:
            UserError: the observation or the masks don't fit, or there is a NaN.

        >>> policy = xagents_ray.load("last", seed=3)
        >>> action, state = policy.predict([0.0, 0.0, 0.1, 0.0])
        >>> policy.predict([[0.0] * 4] * 5, deterministic=False)[0].shape
        (5,)
        """
        rows, is_single = self._conversion.rows(observation)
        self._conversion.check_masks(action_masks)
        if (reader := self._conversion.mask_reader) is not None:
            none_ended = np.zeros(len(arrays_of(rows)[0]), np.bool_)
            self._actor.action_masks = reader.given(action_masks, none_ended)
        with one_blas_thread():
            chosen, state = self._sampler.act(rows, state, episode_start, deterministic)
        actions = self._conversion.actions(chosen)
        return (actions[0] if is_single else actions), state

    def act(
        self, observation: Any, deterministic: bool = True, action_masks: Any = None
    ) -> Any:
        """Return the actions of `predict`, for policies without memory.

        >>> int(xagents_ray.load("last").act([0.0, 0.0, 0.1, 0.0])) in (0, 1)
        True
        """
        self._sampler.check_no_memory()
        return self.predict(observation, None, None, deterministic, action_masks)[0]

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed the sampling of actions, as the seed of an evaluation does.

        Each row of a batch has a separate generator.

        Args:
            seed: 0 or more; None for a random seed.
        Raises:
            UserError: the seed is invalid.

        >>> xagents_ray.load("last").set_random_seed(7)
        """
        checked = EvaluateConfig(seed=seed).seed
        self._sampler = Sampler(self._actor, checked)

    def evaluate(
        self,
        episodes: int = EvaluateConfig.episodes,
        *,
        n_envs: int | None = None,
        seed: int | None = None,
        deterministic: bool = True,
        **settings: Any,
    ) -> playing.Evaluation:
        """Play whole episodes and measure their returns, as `xagents-ray evaluate`.

        Args:
            episodes: total number of episodes in all environments.
            n_envs: number of environments; None for as many as the run had.
            seed: seed of the environments and the sampled actions; None for a random
                one.
            deterministic: whether to take the most likely actions instead of sampling.
            settings: other flags of the command with `_` for `-`: `eval_epsilon`.
        Returns:
            The returns, with `mean` and `std`.
        Raises:
            UserError: a value is out of bounds, or the environment can't be made.
            KeyboardInterrupt: the user pressed Ctrl-C.

        >>> result = xagents_ray.load("last").evaluate(episodes=3, seed=1)
        >>> len(result.returns), result.mean >= 1
        (3, True)
        """
        check_known(settings, options(EvaluateConfig))
        settings = {"sample": not deterministic, **settings}
        config = EvaluateConfig(episodes=episodes, seed=seed, **settings)
        run = self._run if n_envs is None else playing.with_envs(self._run, n_envs)
        with python_call(), one_blas_thread():
            found = playing.evaluate_policy(run, self._trained.weights, config)
            return playing.unless_stopped(found)

    def play(
        self,
        episodes: int = PlayConfig.episodes,
        *,
        video_dir: str | Path | None = None,
        seed: int | None = None,
        deterministic: bool = True,
        **settings: Any,
    ) -> playing.Evaluation:
        """Play episodes in one environment, and show or film them.

        Args:
            episodes: number of episodes.
            video_dir: directory for an .mp4 of each episode.
            seed: seed of the environment and the sampled actions; None for a random
                one.
            deterministic: whether to take the most likely actions instead of sampling.
            settings: other flags of `xagents-ray play` with `_` for `-`: `render` for
                a window, `frame_delay`, `frame_dir` for .jpg files, ….
        Returns:
            The episodes; fewer than requested if you close the window.
        Raises:
            UserError: no display is available, or rendering or writing fails.
            KeyboardInterrupt: the user pressed Ctrl-C.

        >>> result = xagents_ray.load("last").play(video_dir="videos", seed=1)
        >>> [path.name for path in pathlib.Path("videos").iterdir()]
        ['game-1.mp4']
        """
        check_known(settings, options(PlayConfig))
        settings = {"sample": not deterministic, "video_dir": video_dir, **settings}
        config = PlayConfig(episodes=episodes, seed=seed, **settings)
        with python_call(), one_blas_thread():
            weights = self._trained.weights
            found = playing.show_episodes(self._run, weights, config, lambda _: None)
            return playing.unless_stopped(found)

    def save(self, path: str | Path) -> None:
        """Write the policy's network as a weights file, which `--weights` accepts.

        Args:
            path: a name ending in .npz, which holds all that acting needs, .weights.h5,
                .tf or .keras, which a TensorFlow process writes in seconds.
        Raises:
            UserError: the ending is unknown, or the file can't be written.

        >>> xagents_ray.load("last").save("policy.npz")
        >>> xagents_ray.load("policy.npz")
        <Policy: ppo of CartPole-v1 from policy.npz>
        """
        save_weights(self._trained, local_path("save", path))

    def export(self, path: str | Path) -> None:
        """Write the policy as an ONNX model, which is independent of this package.

        The input `observation` is a batch as for `predict`; with images and more, or
        with --critic-inputs, which it lacks, there is an `observation/NAME` for each
        named input. With memory, `state`, float32 [B, n], zeros where an episode
        begins, is an input and `next_state` an output; masks are the input
        `action_masks`. Normalization is part of the model. The outputs are `action`,
        the actions of `predict` (float32 instead of float64), and `output`, float32 [B,
        units]: logits, action values, or means before --action-scaling and clipping.

        Args:
            path: path of the file, such as `policy.onnx`; missing directories are made.
        Raises:
            UserError: the package onnx is missing, the file can't be written, or a
                custom layer or policy has no ONNX form.

        >>> xagents_ray.load("last").export("policy.onnx")
        >>> import onnxruntime
        >>> session = onnxruntime.InferenceSession("policy.onnx")
        >>> observations = np.zeros([5, 4], np.float32)
        >>> actions, logits = session.run(None, {"observation": observations})
        >>> actions.shape, logits.shape
        ((5,), (5, 2))
        """
        arrays, spaces = self._trained.weights.arrays, self._conversion.spaces
        model = onnx_export.build_onnx(self._run, arrays, self._actor, spaces)
        onnx_export.check_actions(model, self._run, self.predict)
        onnx_export.write_onnx(model, Path(local_path("export", path)))

    def to_keras(self) -> Any:
        """Return the network as a `keras.Model`; imports TensorFlow.

        Returns:
            A model from a batch of observations, as for `predict`, to the network's
            outputs, float32 [B, units] each: logits, action values or means of actions;
            then the second head, if any: the value [B, 1], or ACER's action values. The
            last output of SAC and of policies with `--sde-frequency` is log standard
            deviations. Normalization is part of the model.

        >>> model = xagents_ray.load("last").to_keras()
        >>> logits, value = model(np.zeros([5, 4], np.float32))
        >>> tuple(logits.shape), tuple(value.shape)
        ((5, 2), (5, 1))
        """
        build = resolve_name("xagents_ray.networks.keras_policies:of_observations")
        arrays = self._trained.weights.arrays
        return build(self._run.layout, arrays, self.observation_space, self._spec)

    @cached_property
    def _conversion(self) -> Conversion:
        unread = self._run.config.algorithm.unread_inputs
        return Conversion.of(self._run.config.env, self._spec, unread)
