"""The evaluator: plays whole episodes with given weights and reports returns."""

import copy
import sys
from collections.abc import Callable, Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.envs.action_masks import sample_action
from xagents_ray.actors.envs.vector import Envs, EnvStep
from xagents_ray.actors.policies.base import ActorPolicy, noise_generators
from xagents_ray.actors.rollout import EpisodeCounter, first_window
from xagents_ray.algorithms.run_spec import SEED_LIMIT
from xagents_ray.core.errors import EndlessEpisode, Stopped
from xagents_ray.core.stacks import network_input
from xagents_ray.core.trajectory import (
    Array,
    Episode,
    Observations,
    Weights,
    map_array,
)

# Number of env steps after which all decaying exploration has ended.
TRAINED = sys.maxsize
_LEAST_LIMIT = 10_000
_LONGEST = 10
"""An episode without a time limit may have this many times the env steps of the
longest one in training, or `_LEAST_LIMIT` if that is more."""


class Evaluator:
    """Plays whole episodes in vector environments; equal seeds give equal episodes."""

    def __init__(self, setup: ActorSetup) -> None:
        threadpool_limits(1, user_api="blas")
        self._first_env, self._n_envs = setup.first_env, setup.n_envs
        self._envs = setup.make_envs()
        self._policy = setup.make_policy(self._envs.spec)
        self._stopping = False

    def evaluate(
        self,
        weights: Weights,
        episodes: int,
        seed: int,
        limit: int | None = None,
        longest: int = 0,
        greedy: bool = True,
        random_share: float = 0.0,
        progress: Callable[[int, int], object] = lambda episodes, env_steps: None,
    ) -> list[Episode]:
        """Play episodes, an equal number in each environment.

        Counting the first episodes to end would favor short ones. The first
        environments may play one more. Environment i is seeded with seed + i. A greedy
        policy takes the most likely actions; a fraction `random_share` is random. After
        each vector step, `progress` receives the numbers of episodes and env steps.

        Returns:
            Episodes with raw returns, ordered by environment, then by time.
        Raises:
            EndlessEpisode: an episode doesn't end; see `check_end` for its arguments.
            Stopped: `stop` was called.
        """
        shares = [len(range(i, episodes, self._n_envs)) for i in range(self._n_envs)]
        played: list[list[Episode]] = [[] for _ in shares]
        counter = EpisodeCounter(self._n_envs, self._first_env)
        steps = self._steps(weights, seed, greedy, random_share)
        for row, step in enumerate(steps):
            if self._stopping:
                raise Stopped
            for episode in counter.add(row, step):
                env = episode.env - self._first_env
                if len(played[env]) < shares[env]:
                    played[env].append(episode)
            progress(sum(map(len, played)), (row + 1) * self._n_envs)
            left = [len(each) < n for each, n in zip(played, shares, strict=True)]
            if not any(left):
                break
            check_end(self._envs, counter.lengths[left], limit, longest)
        return [episode for each in played for episode in each]

    def _steps(
        self, weights: Weights, seed: int, greedy: bool, random_share: float
    ) -> Iterator[EnvStep]:
        """Reset the environments; return their steps, see `play_forever`."""
        self._policy.load(weights)
        self._envs.statistics.load(weights.arrays, frozen=True)
        first = self._envs.reset(seed % SEED_LIMIT + self._first_env)
        generators = noise_generators(seed, self._first_env, self._n_envs)
        return play_forever(
            self._envs, self._policy, first, generators, greedy, random_share
        )

    def stop(self) -> None:
        """Make an evaluation in progress raise Stopped; also for signal handlers."""
        self._stopping = True

    def close(self) -> None:
        self._envs.close()


def check_end(envs: Envs, lengths: Array, limit: int | None, longest: int) -> None:
    """Raise EndlessEpisode if an episode doesn't end in time.

    Args:
        envs: the environments.
        lengths: int64 [N], N > 0, env steps of unfinished episodes so far.
        limit: most env steps of an episode, --eval-max-steps; None derives it from
            `longest` where no time limit is known to end the episodes.
        longest: env steps of the longest episode in training so far.
    """
    if limit is None:
        if envs.has_time_limit:
            return
        limit = max(_LEAST_LIMIT, _LONGEST * longest)
    if lengths.max() >= limit:
        raise EndlessEpisode(
            f"An episode of {envs.id} has not ended after {limit:,} env steps: end it "
            "with --env-kwargs max_episode_steps=N if it is registered with Gymnasium, "
            "else with the wrapper gymnasium.wrappers.TimeLimit, or raise "
            "--eval-max-steps."
        )


def play_forever(
    envs: Envs,
    policy: ActorPolicy,
    first: Observations,
    generators: list[np.random.Generator],
    greedy: bool,
    random_share: float = 0.0,
) -> Iterator[EnvStep]:
    """Yield the steps of environments that were just reset, indefinitely.

    `first` holds the observations of the reset. The policy, whose weights are loaded,
    takes the most likely actions if `greedy`, else it samples with each environment's
    generator. A fraction of about `random_share` of the actions is random.
    """
    randomize = _randomizer(envs, generators, random_share)
    frames, starts = first_window(first, envs.spec.stack)
    ended = np.zeros(starts.shape[1], np.bool_)
    policy.recurrent_state = None
    policy.reset_memory(~ended)
    while True:
        seen = network_input(frames, starts, envs.spec.is_image)
        policy.action_masks = envs.action_masks
        if greedy:
            actions = policy.greedy(seen)
        else:
            noise = policy.noise(generators, 1)[0]
            actions = policy.act(seen, noise, TRAINED).stepped
        step = envs.step(randomize(actions))
        policy.reset_memory(ended)
        yield step
        frames = map_array(_moved_on, frames, step.observations)
        starts = np.concatenate([starts[1:], ended[None]])
        ended = step.ended


def _moved_on(window: Array, newest: Array) -> Array:
    """Return a window [stack, ...] without its oldest row, with the newest added."""
    return np.concatenate([window[1:], newest[None]])


def _randomizer(
    envs: Envs, generators: list[np.random.Generator], share: float
) -> Callable[[Array], Array]:
    """Return a function that replaces a share of actions with random ones."""
    if not share:
        return lambda actions: actions
    spaces = [copy.deepcopy(envs.spaces[1]) for _ in generators]
    for space, generator in zip(spaces, generators, strict=True):
        space.seed(int(generator.integers(2**31)))

    def randomize(actions: Array) -> Array:
        mixed = np.array(actions)
        for i, (space, generator) in enumerate(zip(spaces, generators, strict=True)):
            if generator.random() < share:
                mask = None if envs.action_masks is None else envs.action_masks[i]
                drawn = sample_action(space, mask) - getattr(space, "start", 0)
                mixed[i] = np.reshape(drawn, mixed[i].shape)
        return mixed

    return randomize
