"""The evaluator: whole games with given weights, for their returns alone."""

import sys
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from xagents_ray.actors.env_actor import ActorSetup, count_games, first_window
from xagents_ray.actors.envs.definitions import register
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.envs.vector import Envs, EnvStep
from xagents_ray.actors.policies import Policy, forget
from xagents_ray.algorithms.table import find
from xagents_ray.core.errors import Stopped
from xagents_ray.core.resolve import resolve
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Episode,
    Weights,
    stack_frames,
)

# Exploration that falls with the env steps has reached its end.
_TRAINED = sys.maxsize


class Evaluator:
    """Plays whole games in vector environments; the same seed gives the same."""

    def __init__(self, setup: ActorSetup) -> None:
        threadpool_limits(1, user_api="blas")
        self._first_env, self._n_envs = setup.first_env, setup.n_envs
        register(setup.definitions)
        self._envs = make_envs(setup.config.env, setup.n_envs, setup.env_threads)
        self._policy = make_policy(setup, self._envs)
        self._stopping = False

    def evaluate(
        self, weights: Weights, episodes: int, seed: int, greedy: bool = True
    ) -> list[Episode]:
        """Play games, each environment an equal share of them.

        Counting the first games to end instead would favour the short ones.

        Args:
            weights: of the policy.
            episodes: games of all environments together; the first environments
                play one more where the shares can't be equal.
            seed: environment i has seed + i.
            greedy: take the likeliest actions, not samples.
        Returns:
            The games with raw returns, by environment and then in order of time.
        Raises:
            Stopped: `stop` was called.
        """
        self._policy.load(weights)
        share, rest = divmod(episodes, self._n_envs)
        wanted = [share + (env < rest) for env in range(self._n_envs)]
        games: list[list[Episode]] = [[] for _ in wanted]
        returns, lengths = np.zeros(len(wanted)), np.zeros(len(wanted), np.int64)
        first = self._envs.reset(seed + self._first_env)
        generators = noise_generators(seed, self._first_env, self._n_envs)
        steps = play_on(self._envs, self._policy, first, generators, greedy)
        for row, (step, resets) in enumerate(steps):
            if self._stopping:
                raise Stopped
            for env, total, length in count_games(step, resets, returns, lengths):
                if len(games[env]) < wanted[env]:
                    episode = Episode(self._first_env + env, row, total, length)
                    games[env].append(episode)
            if [len(each) for each in games] == wanted:
                break
        return [episode for each in games for episode in each]

    def stop(self) -> None:
        """Make an evaluation in progress raise Stopped; for signal handlers too."""
        self._stopping = True

    def close(self) -> None:
        """End the environments."""
        self._envs.close()


def make_policy(setup: ActorSetup, envs: Envs) -> Policy:
    """Return the policy of an agent for these environments, without weights."""
    policy = resolve(find(setup.agent).policy)
    made: Policy = policy(setup.config.algorithm, envs.spec, setup.layout)
    return made


def noise_generators(
    seed: int, first_env: int, n_envs: int
) -> list[np.random.Generator]:
    """Return the generators of the environments' action noise."""
    envs = range(first_env, first_env + n_envs)
    return [np.random.default_rng([seed, env]) for env in envs]


def play_on(
    envs: Envs,
    policy: Policy,
    first: Array,
    generators: list[np.random.Generator],
    greedy: bool,
) -> Iterator[tuple[EnvStep, BoolArray]]:
    """Step environments for ever.

    Args:
        envs: just reset.
        policy: with weights.
        first: what the reset gave.
        generators: of each environment's action noise.
        greedy: take the likeliest actions, not samples.
    Yields:
        Each step, and bool [B]: the environments that only reset in it.
    """
    frames, starts = first_window(first, envs.spec.stack)
    ended = np.zeros(len(first), np.bool_)
    forget(policy.memory, ~ended)
    while True:
        seen = stack_frames(frames, starts) if envs.spec.is_image else frames[-1]
        if greedy:
            actions = policy.greedy(seen)
        else:
            noise = policy.noise(generators, 1)[0]
            actions = policy.act(seen, noise, _TRAINED).stepped
        step = envs.step(actions)
        forget(policy.memory, ended)
        yield step, ended
        frames = np.concatenate([frames[1:], step.observations[None]])
        starts = np.concatenate([starts[1:], ended[None]])
        ended = step.ended
