"""Frames stored once, from real games, against ALE's own stacks of four."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from acting import run_of
from ale_py.vector_env import AtariVectorEnv
from naive import random_arrays

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs import atari
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.stacks import stack_frames
from xagents_ray.core.trajectory import (
    Episode,
    Trajectory,
    Weights,
)
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layout import Layout
from xagents_ray.replay.transitions import TransitionReplay

N_ENVS, STACK, SEED = 3, 4, 11
# Long rollouts and short ones, so that starts of episodes lie near their ends.
LENGTHS = (16, 1, 40, *(2, 3, 5, 1, 7) * 10)


def atari_run(game: str, seed: int = SEED, **settings: Any) -> RunSpec:
    run = run_of("ppo", N_ENVS, env=game, preprocess=True, **settings)
    return replace(run, seed=seed)


def actor_of(run: RunSpec, first_env: int = 0, n_envs: int = N_ENVS) -> EnvActor:
    return EnvActor(ActorSetup.of(run, n_envs, first_env, 2))


def weights_of(run: RunSpec, version: int) -> Weights:
    """Random weights with a lively policy head."""
    return Weights(version, _arrays(run.layout, version % 3))


@functools.cache
def _arrays(layout: Layout, seed: int) -> dict[str, Any]:
    return random_arrays(layout, seed, gain=2.0)


class Reference(NamedTuple):
    """What AtariVectorEnv gave for the actions of one rollout."""

    stacks: Any  # [T + 1, B, 84, 84, 4]
    rewards: Any
    terminated: Any
    truncated: Any
    lives: Any


class Emulator:
    """AtariVectorEnv with its own stack of frames, fed with given actions."""

    def __init__(self, game: str, max_frame: bool) -> None:
        kwargs = atari.emulator_settings(game)
        assert kwargs is not None
        names = (
            "game",
            "repeat_action_probability",
            "full_action_space",
            "max_num_frames_per_episode",
        )
        self._envs = AtariVectorEnv(
            **{name: kwargs[name] for name in names if name in kwargs},
            num_envs=N_ENVS,
            stack_num=STACK,
            frameskip=4,
            maxpool=max_frame,
            noop_max=30,
            use_fire_reset=True,
            reward_clipping=False,
        )
        observations, infos = self._envs.reset(seed=SEED)
        self._last = np.moveaxis(observations, 1, -1).copy()
        self.lives = infos["lives"].copy()

    def follow(self, actions: Any) -> Reference:
        stacks, steps = [self._last], []
        for row in actions:
            observations, *step, infos = self._envs.step(row)
            stacks.append(np.moveaxis(observations, 1, -1).copy())
            steps.append([*(np.array(x) for x in step), infos["lives"].copy()])
        self._last = stacks[-1]
        return Reference(np.stack(stacks), *map(np.stack, zip(*steps, strict=True)))


def rebuilt(t: Trajectory) -> Any:
    windows = [slice(i, i + STACK) for i in range(len(t.rewards) + 1)]
    return np.stack([stack_frames(t.observations[w], t.starts[w]) for w in windows])


# Breakout's games end with the last life; Pong's are cut off, as its real ones last
# longer than this test.
GAMES = [("BreakoutNoFrameskip-v4", None, False), ("PongNoFrameskip-v4", 250, True)]


@pytest.fixture(scope="module", params=GAMES, ids=[row[0] for row in GAMES])
def rolled(request: Any) -> Iterator[tuple[RunSpec, list[Any], list[Reference]]]:
    """Several rollouts of one actor, and the emulator on the same actions."""
    game, limit, max_frame = request.param
    with pytest.MonkeyPatch.context() as patch:
        if limit is not None:
            known = atari.emulator_settings(game) or {}
            short = {**known, "max_num_frames_per_episode": limit}
            patch.setattr(atari, "emulator_settings", lambda _: short)
        run = atari_run(game, max_frame=max_frame)
        actor, emulator = actor_of(run), Emulator(game, max_frame)
    rollouts, references, steps = [], [emulator.lives], 0
    for version, length in enumerate(LENGTHS, 1):
        trajectory, report = actor.rollout(weights_of(run, version), length, steps)
        rollouts.append((trajectory, report))
        references.append(emulator.follow(trajectory.actions))
        steps += int(report.steps.sum())
    actor.close()
    yield run, rollouts, references


def test_stacks_are_those_of_the_emulator(rolled: Any) -> None:
    """Bit for bit, across episodes and rollouts, and so what the policy saw."""
    run, rollouts, (lives, *references) = rolled
    starts = rows = truncations = lives_lost = carried = 0
    ended = np.zeros(N_ENVS, bool)
    for version, ((trajectory, _), reference) in enumerate(
        zip(rollouts, references, strict=True), 1
    ):
        assert trajectory.observations.shape[1:] == (N_ENVS, 84, 84)
        stacks = rebuilt(trajectory)
        np.testing.assert_array_equal(stacks, reference.stacks)
        forward = bind_network(run.layout, weights_of(run, version).arrays)
        values = [forward(stack)[1][:, 0] for stack in reference.stacks]
        np.testing.assert_array_equal(trajectory.values, values)
        np.testing.assert_array_equal(trajectory.rewards, np.sign(reference.rewards))
        np.testing.assert_array_equal(trajectory.truncated, reference.truncated)
        before = np.concatenate([lives[None], reference.lives[:-1]])
        lost = (reference.lives < before) & (reference.lives > 0)
        np.testing.assert_array_equal(
            trajectory.terminated, reference.terminated | lost
        )
        lives = reference.lives[-1]
        ends = reference.terminated | reference.truncated
        resets = np.concatenate([ended[None], ends[:-1]])
        np.testing.assert_array_equal(trajectory.valid, ~resets)
        np.testing.assert_array_equal(trajectory.starts[STACK:], resets)
        ended = ends[-1]
        starts += resets.sum()
        carried += version > 1 and trajectory.starts[: STACK - 1].sum()
        rows += resets.size
        truncations += reference.truncated.sum()
        lives_lost += lost.sum()
    assert starts >= 2 and carried >= 2
    assert rows == N_ENVS * sum(LENGTHS)
    if run.config.env.env == "PongNoFrameskip-v4":
        assert truncations >= 4
    else:
        assert lives_lost >= 8


def test_reports_hold_whole_games(rolled: Any) -> None:
    """Raw returns and lengths of games, not of lives."""
    _, rollouts, (_, *references) = rolled
    ended = np.zeros(N_ENVS, bool)
    returns, lengths = np.zeros(N_ENVS), np.zeros(N_ENVS, int)
    games = 0
    for (_, report), reference in zip(rollouts, references, strict=True):
        expected, steps = [], []
        for t, raw in enumerate(reference.rewards):
            assert not raw[ended].any()
            steps.append((~ended).sum())
            lengths += ~ended
            returns += raw
            ended = reference.terminated[t] | reference.truncated[t]
            for env in np.flatnonzero(ended):
                expected.append(Episode(env, t, returns[env], lengths[env]))
                returns[env] = lengths[env] = 0
        assert list(report.episodes) == expected
        np.testing.assert_array_equal(report.steps, steps)
        games += len(expected)
    assert games >= 2


def test_replayed_transitions_are_those_of_the_emulator(rolled: Any) -> None:
    run, rollouts, (_, *references) = rolled
    replay = TransitionReplay(run.spec, 300, N_ENVS, max(LENGTHS), 0, 1, 0.9)
    known: dict[bytes, set[bytes]] = {}
    for (trajectory, _), reference in zip(rollouts, references, strict=True):
        replay.insert(trajectory)
        for t, env in np.argwhere(trajectory.valid):
            before, after = reference.stacks[t : t + 2, env]
            known.setdefault(before.tobytes(), set()).add(after.tobytes())
    sample = replay.sample(1, 500)
    observations = sample.observations[0].swapaxes(0, 1)
    starts = sample.starts[0].T
    now = stack_frames(observations[:-1], starts[:-1])
    after = stack_frames(observations[1:], starts[1:])
    for i in range(500):
        assert after[i].tobytes() in known[now[i].tobytes()]


def test_environments_do_not_depend_on_who_steps_them() -> None:
    """Three environments in one actor or in two: the same games and actions."""
    run = atari_run("BreakoutNoFrameskip-v4")
    actors = [actor_of(run), actor_of(run, 0, 1), actor_of(run, 1, 2)]
    whole, one, two = (
        [actor.rollout(weights_of(run, 1), n, 0)[0] for n in (20, 90)]
        for actor in actors
    )
    for all_three, first, others in zip(whole, one, two, strict=True):
        assert others.first_env == 1
        for name in ("observations", "starts", "actions", "rewards", "valid"):
            got = np.concatenate([getattr(t, name) for t in (first, others)], axis=1)
            np.testing.assert_array_equal(got, getattr(all_three, name))
        for name in ("log_probs", "values"):
            got = np.concatenate([getattr(t, name) for t in (first, others)], axis=1)
            expected = getattr(all_three, name)
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    for actor in actors:
        actor.close()


def test_the_seed_decides_the_rollout() -> None:
    def roll(seed: int) -> Trajectory:
        run = atari_run("ALE/Breakout-v5", seed=seed)
        actor = actor_of(run)
        trajectory, _ = actor.rollout(weights_of(run, 1), 30, 0)
        actor.close()
        return trajectory

    one, same, other = roll(5), roll(5), roll(6)
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.actions, other.actions)
    assert not np.array_equal(one.observations, other.observations)
