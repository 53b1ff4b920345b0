"""Evaluation: whole games, greedy or as in training, each environment its share."""

import itertools
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import FIXED, SEED, SHORT_ATARI, actors_games, setup_of, weights_of
from click.testing import CliRunner
from naive import naive_stacks
from stepping import Stepping

import xagents_ray
from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.evaluator import Evaluator, play_forever
from xagents_ray.actors.player import Player
from xagents_ray.actors.policies.actor_critic import ActorCriticPolicy
from xagents_ray.commands.cli import root
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.trajectory import Episode
from xagents_ray.networks.forward import bind_network
from xagents_ray.settings.episodes import PlayConfig

pytestmark = pytest.mark.usefixtures("short_atari")


def evaluated(
    setup: ActorSetup, episodes: int, greedy: bool = True, random_share: float = 0.0
) -> list[Episode]:
    with closing(Evaluator(setup)) as evaluator:
        weights = weights_of(setup)
        return evaluator.evaluate(
            weights, episodes, SEED, greedy=greedy, random_share=random_share
        )


def played_by_hand(env_id: str, setup: ActorSetup, games: int) -> list[Any]:
    """Return (return, length) of greedy games, one environment after the other."""
    weights = weights_of(setup)
    forward = bind_network(setup.layout, weights.arrays)
    results = []
    for index in range(setup.n_envs):
        env = gym.make(env_id)
        for game in range(games):
            seed = SEED + index if game == 0 else None
            observation, total, length, over = env.reset(seed=seed)[0], 0.0, 0, False
            while not over:
                output = forward(observation[None].astype(np.float32))[0][0]
                action: Any = output.argmax()
                if isinstance(env.action_space, gym.spaces.Box):
                    low, high = env.action_space.low, env.action_space.high
                    action = low + (np.clip(output, -1, 1) + 1) / 2 * (high - low)
                observation, reward, terminated, truncated, _ = env.step(action)
                total, length = total + float(reward), length + 1
                over = terminated or truncated
            results.append((pytest.approx(total), length))
        env.close()
    return results


@pytest.mark.parametrize(
    ("agent", "env_id", "games"),
    [("ppo", "CartPole-v1", 3), ("dqn", "CartPole-v1", 3), ("ppo", "Pendulum-v1", 1)],
)
def test_greedy_games_are_those_played_by_hand(
    agent: str, env_id: str, games: int
) -> None:
    setup = setup_of(agent, 2, env=env_id, vectorization="sync")
    episodes = evaluated(setup, 2 * games)
    found = [(episode.episode_return, episode.length) for episode in episodes]
    assert found == played_by_hand(env_id, setup, games)
    assert [episode.env for episode in episodes] == [0] * games + [1] * games


OU_NOISE = {
    "env": "Pendulum-v1",
    "noise": "ou",
    "step_noise_coef": 5.0,
    "buffer_initial_size": 1,
}


@pytest.mark.parametrize(
    ("agent", "settings", "games"),
    [
        ("ppo", {"env": "CartPole-v1"}, 4),
        ("ppo", {"env": "Pendulum-v1"}, 2),
        ("dqn", {"env": "CartPole-v1", **FIXED}, 4),
        pytest.param("ppo", SHORT_ATARI, 3, marks=pytest.mark.slow),
    ],
)
def test_sampled_games_are_those_of_training(
    agent: str, settings: dict[str, Any], games: int
) -> None:
    """Frames, stacks, resets and noise are an env actor's, across ends of games."""
    setup = setup_of(agent, 2, **settings)
    assert evaluated(setup, 2 * games, greedy=False) == actors_games(setup, games)


@pytest.mark.parametrize("space", ["matrix", "binary", "discrete"])
def test_random_actions_are_of_the_space(space: str) -> None:
    """The environment refuses others."""
    setup = setup_of("ppo", 2, env=f"several:{space}")
    assert evaluated(setup, 2) != evaluated(setup, 2, random_share=1.0)


def test_dqn_samples_with_the_last_epsilon() -> None:
    setup = setup_of("dqn", 1, env="CartPole-v1", epsilon_start=1.0, epsilon_end=0.0)
    assert evaluated(setup, 5, greedy=False) == evaluated(setup, 5)


def test_progress_counts_episodes_and_env_steps() -> None:
    setup, seen = setup_of("ppo", 2, env="CartPole-v1"), list[tuple[int, int]]()
    with closing(Evaluator(setup)) as evaluator:
        weights, count = weights_of(setup), lambda *numbers: seen.append(numbers)
        games = evaluator.evaluate(weights, 5, SEED, progress=count)
    assert [steps for _, steps in seen] == list(range(2, 2 * len(seen) + 1, 2))
    episodes = [ended for ended, _ in seen]
    assert episodes == sorted(episodes)
    assert (episodes[0], episodes[-1]) == (0, len(games)) == (0, 5)


@pytest.mark.parametrize(
    ("agent", "settings", "greedy"),
    [
        ("ppo", {"env": "CartPole-v1"}, True),
        pytest.param("ppo", SHORT_ATARI, False, marks=pytest.mark.slow),
        ("ddpg", OU_NOISE, False),
        ("ppo", {"env": "Pendulum-v1", "sde_frequency": 3}, False),
    ],
)
def test_it_is_repeatable(agent: str, settings: dict[str, Any], greedy: bool) -> None:
    """On one evaluator, left in the middle of a game before, and on a new one."""
    setup = setup_of(agent, 2, **settings)
    first, second = Evaluator(setup), Evaluator(setup)
    games = [
        evaluator.evaluate(weights_of(setup), 3, SEED, greedy=greedy)
        for evaluator in (first, first, second)
    ]
    other = second.evaluate(weights_of(setup), 3, SEED + 7, greedy=greedy)
    likeliest = second.evaluate(weights_of(setup), 3, SEED, greedy=True)
    first.close()
    second.close()
    assert games[0] == games[1] == games[2] != other
    assert (games[0] == likeliest) == greedy
    assert [episode.env for episode in games[0]] == [0, 0, 1]


class TwoPaces(Stepping):
    """Episodes of 2 steps after an even seed, of 11 after an odd one; rewards 10."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.length = 11 if seed % 2 else 2
        return super().reset(seed=seed)

    def reward(self, action: Any) -> float:
        return 10.0


@pytest.mark.parametrize(
    ("episodes", "lengths"),
    [(7, [11, 11, 11, 2, 2, 11, 11]), (3, [11, 2, 11]), (2, [11, 2]), (1, [11])],
)
def test_short_games_are_not_favoured(episodes: int, lengths: list[int]) -> None:
    setup = setup_of("ppo", 3, env="test_evaluator:TwoPaces")
    games = evaluated(setup, episodes)
    assert [game.length for game in games] == lengths
    assert [game.episode_return for game in games] == [10.0 * n for n in lengths]


class Bounded(TwoPaces):
    """Refuses actions outside its bounds."""

    action_space = gym.spaces.Box(-0.1, 0.1, (1,), np.float32)

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        return super().step(action)


@pytest.mark.parametrize(
    ("greedy", "random_share"), [(True, 0.0), (False, 0.0), (True, 0.5)]
)
def test_actions_keep_their_bounds(greedy: bool, random_share: float) -> None:
    setup = setup_of("ppo", 2, env="test_evaluator:Bounded")
    games = evaluated(setup, 4, greedy, random_share)
    assert [game.length for game in games] == [11, 11, 2, 2]


class Shifted(Stepping):
    """Long episodes whose reward is 1 when an action is not that of the step before."""

    length = 2_000
    action_space = gym.spaces.Discrete(4, start=3)
    last: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = None
        return super().reset(seed=seed)

    def reward(self, action: Any) -> float:
        assert action in self.action_space
        self.last, last = action, self.last
        return float(action != last)


# 1 - 0.7 ** 2 - 3 * 0.1 ** 2 of all steps, with one random action of four.
@pytest.mark.parametrize(("epsilon", "expected"), [(0, 1), (0.4, 960), (1, 1_500)])
def test_epsilon_is_a_share_of_random_actions(epsilon: float, expected: int) -> None:
    """A greedy policy does the same all along, since it sees the same."""
    setup = setup_of("ppo", 2, env="test_evaluator:Shifted")
    with closing(Evaluator(setup)) as evaluator:
        games, again = (
            evaluator.evaluate(weights_of(setup), 2, SEED, random_share=epsilon)
            for _ in range(2)
        )
        assert games == again
    found = [game.episode_return for game in games]
    assert found == pytest.approx([expected, expected], abs=100 if epsilon else 0)


class Counted(TwoPaces):
    """Frames whose pixels count the steps of all games."""

    observation_space = gym.spaces.Box(0, 255, (36, 36), np.uint8)
    shown = 0

    def observe(self) -> Any:
        self.shown += 1
        return np.full((36, 36), self.shown, np.uint8)


def test_a_stack_shows_only_frames_of_its_game() -> None:
    setup = setup_of("ppo", 2, env="test_evaluator:Counted")
    envs = make_envs(setup.config.env, 2, 1)
    policy: Any = ActorCriticPolicy(setup.config.algorithm, envs.spec, setup.layout)
    policy.load(weights_of(setup))
    seen, greedy = [], policy.greedy
    policy.greedy = lambda stacks: seen.append(stacks) or greedy(stacks)
    frames, starts = [envs.reset(4)], [np.ones(2, np.bool_)]
    steps = play_forever(envs, policy, frames[0], [], greedy=True)
    ended = np.zeros(2, np.bool_)
    for step in itertools.islice(steps, 30):
        frames.append(step.observations)
        starts.append(ended)
        ended = step.ended
    envs.close()
    assert np.sum(starts, axis=0).tolist() == [11, 3]
    for env in range(2):
        expected = naive_stacks([f[env] for f in frames], [s[env] for s in starts], 4)
        found = [stacks[env] for stacks in seen]
        np.testing.assert_array_equal(found, expected[:30])


@pytest.mark.parametrize("env", [SHORT_ATARI, {"env": "CartPole-v1"}])
def test_environments_take_the_largest_seed(env: dict[str, Any]) -> None:
    """Emulators take 31 bits, and the second environment has one more than the run."""
    setup = replace(setup_of("ppo", 2, **env), seed=2**31 - 1)
    with closing(EnvActor(setup)) as actor:
        trajectory, _ = actor.rollout(weights_of(setup), 4, 0)
    assert trajectory.valid.all()
    with closing(Evaluator(setup)) as evaluator:
        assert len(evaluator.evaluate(weights_of(setup), 2, 2**31 - 1)) == 2


def test_a_stopped_evaluator_raises() -> None:
    setup = setup_of("ppo", 1, env="CartPole-v1")
    evaluator = Evaluator(setup)
    evaluator.stop()
    with pytest.raises(Stopped):
        evaluator.evaluate(weights_of(setup), 1, SEED)
    evaluator.close()


class Endless(Stepping):
    length = 10**9


def limited() -> Any:
    return gym.wrappers.TimeLimit(Endless(), 4_000)


def vectors(num_envs: int) -> Any:
    return gym.vector.SyncVectorEnv([Endless] * num_envs)


@pytest.mark.parametrize("vectorization", ["sync", "async", "vector"])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_an_episode_without_end_is_said(
    n_envs: int, vectorization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xagents_ray.actors.evaluator._LEAST_LIMIT", 3_000)
    env = "vectors" if vectorization == "vector" else "Endless"
    settings = {"env": f"test_evaluator:{env}", "vectorization": vectorization}
    setup = setup_of("ppo", n_envs, **settings)
    words = "has not ended after 3,000 env steps.*max_episode_steps=N.*TimeLimit"
    with pytest.raises(UserError, match=words):
        evaluated(setup, n_envs)
    if n_envs == 1:
        player = Player(setup, PlayConfig())
        with closing(player), pytest.raises(UserError, match=words):
            list(player.play(weights_of(setup), SEED))


def test_a_time_limit_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xagents_ray.actors.evaluator._LEAST_LIMIT", 3_000)
    (episode,) = evaluated(setup_of("ppo", 1, env="test_evaluator:limited"), 1)
    assert episode.length == 4_000


@pytest.mark.parametrize(
    ("env", "limit", "longest", "expected"),
    [
        ("Endless", None, 0, 3_000),
        ("Endless", None, 299, 3_000),
        ("Endless", None, 400, 4_000),
        ("Endless", 50, 400, 50),
        ("limited", 3_999, 0, 3_999),
    ],
)
def test_episodes_are_bounded(
    env: str,
    limit: int | None,
    longest: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By 10 times the longest one in training, or by --eval-max-steps."""
    monkeypatch.setattr("xagents_ray.actors.evaluator._LEAST_LIMIT", 3_000)
    setup = setup_of("ppo", 1, env=f"test_evaluator:{env}")
    words = f"has not ended after {expected:,} env steps.*raise --eval-max-steps"
    with closing(Evaluator(setup)) as evaluator, pytest.raises(UserError, match=words):
        evaluator.evaluate(weights_of(setup), 1, SEED, limit, longest)
    with (
        closing(Player(setup, PlayConfig(eval_max_steps=limit))) as player,
        pytest.raises(UserError, match=words),
    ):
        list(player.play(weights_of(setup), SEED, longest))


class Lingering(Stepping):
    """Episodes of 200 steps, or one of 2 before one without end, by the seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.lengths = iter([200] * 9 if seed % 2 else [2, 10**9])
        self.length = next(self.lengths)
        return super().reset(seed=seed)


def test_an_episode_that_does_not_count_need_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xagents_ray.actors.evaluator._LEAST_LIMIT", 300)
    episodes = evaluated(setup_of("ppo", 2, env="test_evaluator:Lingering"), 3)
    assert [each.length for each in episodes] == [200, 200, 2]


def test_a_run_trains_on(tmp_path: Path) -> None:
    """On Ray, what fails in an evaluation is a warning in any case."""
    words = r"evaluation at 100 steps failed, and the next one is at 1000: .* not ended"
    with pytest.warns(UserWarning, match=words) as warned:
        result = xagents_ray.train(
            "a2c",
            env="test_evaluator:Endless",
            max_steps=400,
            eval_every=100,
            eval_episodes=1,
            local=True,
            quiet=True,
            run_dir=str(tmp_path),
        )
    assert result.env_steps >= 400 and len(warned) == 1


class Long(Stepping):
    """Episodes of 30 steps in training and none that ends after it."""

    length = 30

    def step(self, action: Any) -> Any:
        if os.path.exists("trained"):
            self.length = 10**9
        return super().step(action)


def test_a_run_remembers_its_longest_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("xagents_ray.actors.evaluator._LEAST_LIMIT", 200)
    settings: dict[str, Any] = {"env": "test_evaluator:Long", "max_steps": 100}
    result = xagents_ray.train("a2c", **settings, local=True, quiet=True)
    Path("trained").touch()
    policy = xagents_ray.load(result.directory)
    with pytest.raises(UserError, match="not ended after 300 env steps"):
        policy.evaluate(1)
    with pytest.raises(UserError, match="not ended after 300 env steps"):
        policy.play(1)
    with pytest.raises(UserError, match="not ended after 40 env steps"):
        policy.evaluate(1, eval_max_steps=40)
    words = "a2c --run", result.directory, "--eval-max-steps 50"
    for command in ("evaluate", "play"):
        run = CliRunner().invoke(root, [command, *" ".join(words).split()])
        assert run.exit_code != 0
        said = str(run.exception) + run.output
        assert "not ended after 50 env steps" in said
