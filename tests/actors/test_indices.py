"""The indices that factories get: unique among all environments that are open."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from acting import run_of
from naive import random_arrays
from numbered_envs import Numbered, indices

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs import make
from xagents_ray.actors.envs.goals import GoalRewards
from xagents_ray.core.errors import UserError
from xagents_ray.policy.conversion import Conversion
from xagents_ray.run.film import film
from xagents_ray.settings.training import EnvConfig
from xagents_ray.utils.common import create_envs


def numbered(folder: Path, **settings: Any) -> dict[str, Any]:
    kwargs = (f'folder="{folder}"',)
    return {"env": "numbered_envs:Numbered", "env_kwargs": kwargs, **settings}


@pytest.mark.usefixtures("workers_import_support")
@pytest.mark.parametrize(
    "where", ["local", pytest.param("ray", marks=pytest.mark.slow)]
)
def test_a_run_repeats_no_index(
    where: str, tmp_path: Path, train: Callable[..., dict[str, Any]]
) -> None:
    """Training has 0 and 1, evaluations 2 and 3, and rewards of goals those from 5."""
    is_local = where == "local"
    placed = {"local": True} if is_local else {"n_actors": 2, "replay_shards": 2}
    train(
        "ddpg",
        **numbered(tmp_path, n_envs=2, her="future", max_steps=200, eval_every=50),
        buffer_initial_size=60,
        eval_episodes=2,
        **placed,
    )
    rewards = [5] if is_local else [5, 6]
    assert indices(tmp_path) == [0, 1, 2, 3, *rewards]
    if is_local:  # Ray ends processes
        assert indices(tmp_path, "open") == []


def test_what_is_open_beside_training(tmp_path: Path) -> None:
    """The film of a run, and environments that the user steps."""
    run = run_of("ddpg", 2, **numbered(tmp_path, her="future"))
    learned = {
        f"{run.algorithm.models[0].name}/{name}": array
        for name, array in random_arrays(run.layout, 3).items()
    }
    with ExitStack() as stack:
        stack.enter_context(closing(EnvActor(ActorSetup.of(run, 2))))
        for shard in range(2):
            stack.enter_context(closing(GoalRewards(run.config.env, shard=shard)))
        film(run, learned, tmp_path / "video")
        assert indices(tmp_path) == [0, 1, 4, 5, 6]
        Conversion.of(run.config.env, run.spec)  # for predictions
        own = [make.make_stacked(run.config.env, 1, None) for _ in range(2)]
        envs = create_envs(
            preprocess=False,
            n=2,
            env_name="numbered_envs:Numbered",
            env_kwargs={"folder": str(tmp_path)},
        )
        own += envs[:]
        found = indices(tmp_path, "open")
        assert len(found) == 8 and found[:4] == [0, 1, 5, 6]
        for env in own:
            env.close()
    assert indices(tmp_path, "open") == []


def test_an_environment_that_is_refused_is_closed(tmp_path: Path) -> None:
    class Nameless(Numbered):
        def reset(self, **_: Any) -> Any:
            raise ValueError("no place")

    class Unpaid(Numbered):
        compute_reward = property()  # type: ignore[assignment]

    folder = {"folder": str(tmp_path)}
    with pytest.raises(UserError, match="no place"):
        make.check_env(EnvConfig(env=Nameless, env_kwargs=folder))  # type: ignore[arg-type]
    assert indices(tmp_path, "open") == []
    with pytest.raises(UserError, match="compute_reward"):
        GoalRewards(EnvConfig(env=Unpaid, env_kwargs=folder))  # type: ignore[arg-type]
    assert indices(tmp_path, "open") == []


def test_a_vector_factory_gets_its_first_index() -> None:
    found = []

    def vector(num_envs: int, rank: int) -> Any:
        found.append((rank, num_envs))
        return gym.make_vec("CartPole-v1", num_envs)

    make.make_envs(EnvConfig(env=vector), 3, 1, first_index=6).close()  # type: ignore[arg-type]
    assert found == [(6, 3)]
