"""The actors of a run: their classes are defined once, and their claims may be lost."""

from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.actors.envs.indices import first_evaluation_index
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import placement
from xagents_ray.cluster.run.elastic import ActorClaim
from xagents_ray.cluster.run.placement import RunParts, remote_class
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run.prepare import build_run
from xagents_ray.run.worker_variables import worker_variables
from xagents_ray.settings.config import Config
from xagents_ray.settings.resources import PlacementConfig


class _Service: ...


def test_an_evaluator_has_one_thread_and_environments_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run's env actors have the environments before its own."""
    config = Config.of(ALGORITHMS["ppo"].config, {"env": "CartPole-v1", "n_envs": 4})
    parts: Any = RunParts.__new__(RunParts)
    parts._run = build_run(ALGORITHMS["ppo"], config, EnvSpec((4,), "float32", 1, 2))
    parts._definitions, parts._anywhere, parts._made = (), {"num_cpus": 0}, {}
    parts._ray = None
    made = SimpleNamespace(
        options=lambda num_cpus: SimpleNamespace(remote=lambda setup: setup)
    )
    monkeypatch.setattr(placement, "remote_class", lambda *_: made)
    setup = parts.evaluator(3)
    assert (setup.n_envs, setup.first_env, setup.env_threads) == (3, 0, 1)
    assert setup.first_index == first_evaluation_index(config.env)
    assert [*parts._made] == [("evaluator", 0)]


@pytest.mark.parametrize("gpus", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_learners_share_a_claim_and_their_gpus(
    monkeypatch: pytest.MonkeyPatch, count: int, gpus: float
) -> None:
    """Ray would let those without one see all."""
    given = {"env": "CartPole-v1", "n_envs": 6, "n_learners": count}
    config = Config.of(ALGORITHMS["ppo"].config, given)
    parts: Any = RunParts.__new__(RunParts)
    parts._run = build_run(ALGORITHMS["ppo"], config, EnvSpec((4,), "float32", 1, 2))
    parts._ray, parts._folder, parts._made, parts._serves = None, (), {}, False
    parts._learner_gpus, parts._variables, parts._blind = gpus, {}, {"sees": None}
    parts._reserved = SimpleNamespace(strategy="bundle {}".format, visible_gpus=None)
    asked, groups = list[dict[str, Any]](), list[list[Any]]()
    monkeypatch.setattr(placement, "learner_group", groups.append)

    def options(**given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(remote=lambda *_: object())

    made = SimpleNamespace(options=options)
    monkeypatch.setattr(placement, "remote_class", lambda *_, **__: made)
    parts.learner()
    expected = {"num_cpus": 0, "scheduling_strategy": "bundle 0"}
    expected |= {"num_gpus": gpus / count} if gpus else {"num_gpus": 0, "sees": None}
    assert asked == [expected]
    assert [*parts._made] == [("learner", number) for number in range(count)]
    assert [len(each) for each in groups] == [count] * (count > 1)


def test_all_parts_but_the_learner_close_what_they_have() -> None:
    """Their environments may hold licences, files and processes."""
    parts: Any = RunParts.__new__(RunParts)
    begun, killed, ended = list[str](), list[str](), list[str]()
    kinds = "learner", "shard", "env actor", "evaluator"
    parts._made = {(kind, 0): kind for kind in kinds}
    parts._closing = SimpleNamespace(begin=begun.append, finish=lambda: None)
    parts._ray = SimpleNamespace(kill=killed.append)
    parts._release = lambda: ended.append("claims")
    parts.release()
    assert (begun, killed, ended) == ([*kinds[1:]], [*kinds], ["claims"])


def test_a_class_is_defined_once_per_process() -> None:
    """Ray sends each definition to the cluster and keeps it there."""
    defined: list[Any] = []

    def remote(*kinds: type, **settings: Any) -> Any:
        if kinds:
            defined.append((kinds[0], settings))
            return object()
        return lambda kind: defined.append((kind, settings)) or object()

    ray = type("Ray", (), {"remote": staticmethod(remote)})
    first = remote_class(ray, _Service, answers_always=True)
    assert remote_class(ray, _Service, answers_always=True) is first
    assert defined == [(_Service, {"concurrency_groups": {"control": 1}})]
    assert remote_class(ray, _Service) is remote_class(ray, _Service)
    assert defined[1:] == [(_Service, {})]


@pytest.mark.parametrize(
    ("located", "lost"),
    [
        ({0: "a", 1: "a", 2: "b"}, []),
        ({0: "a", 1: "a", 2: "gone"}, [1]),  # the dead node is still named
        ({0: "a", 1: "", 2: ""}, [0, 1]),  # Ray looks for room
        ({}, [0, 1]),
    ],
)
def test_claims_are_lost_whose_bundles_are_on_no_live_node(
    located: dict[int, str], lost: list[int]
) -> None:
    """Bundle 0 is the learner's."""
    nodes = [
        {"NodeID": "a", "Alive": True},
        {"NodeID": "b", "Alive": True},
        {"NodeID": "gone", "Alive": False},
    ]
    table = {"bundles_to_node_id": located}
    parts: Any = RunParts.__new__(RunParts)
    parts._claims = [ActorClaim("group", bundle, 1.0, 1.0) for bundle in (1, 2)]
    parts._ray = SimpleNamespace(
        nodes=lambda: nodes,
        util=SimpleNamespace(placement_group_table=lambda group: table),
    )
    parts._calls = RayCalls(parts._ray, Signals())
    assert list(parts.lost_claims()) == lost
    # Its parts share the cores of a Ray task.
    parts._claims = [claim._replace(group=None) for claim in parts._claims]
    assert list(parts.lost_claims()) == []


@pytest.mark.parametrize(
    ("given", "visible", "expected"),
    [
        ({}, None, {}),
        ({}, "-1", {"CUDA_VISIBLE_DEVICES": "-1"}),
        ({"A": "1"}, None, {"A": "1"}),
        ({"A": "1"}, "0", {"A": "1", "CUDA_VISIBLE_DEVICES": "0"}),
    ],
)
def test_actors_have_the_variables_beside_their_gpus(
    given: dict[str, str], visible: str | None, expected: dict[str, str]
) -> None:
    parts: Any = RunParts.__new__(RunParts)
    parts._variables = given
    wanted = {"runtime_env": {"env_vars": expected}} if expected else {}
    assert parts._environment(visible) == wanted


def test_variables_without_a_value_have_the_value_here() -> None:
    given: Any = {"FILE": "/opt/a=b", "EMPTY": "", "TOKEN": None}
    placement = PlacementConfig(worker_env=given)
    assert placement.worker_env == ("FILE=/opt/a=b", "EMPTY=", "TOKEN")
    found = worker_variables(placement, {"TOKEN": "secret", "FILE": "other"})
    assert found == {"FILE": "/opt/a=b", "EMPTY": "", "TOKEN": "secret"}
    with pytest.raises(UserError, match="--worker-env TOKEN: it isn't set here; set"):
        worker_variables(placement, {})


@pytest.mark.parametrize(
    ("given", "visible", "n_envs", "expected"),
    [
        ({}, None, 5, {}),  # a phase that travels as one value
        ({}, None, 6, {"MALLOC_ARENA_MAX": "1"}),
        ({}, None, 1_000, {"MALLOC_ARENA_MAX": "1"}),
        ({"A": "1"}, "0", 5, {"A": "1", "CUDA_VISIBLE_DEVICES": "0"}),
        ({}, "0", 1_000, {"MALLOC_ARENA_MAX": "1", "CUDA_VISIBLE_DEVICES": "0"}),
        ({"MALLOC_ARENA_MAX": "4"}, None, 1_000, {"MALLOC_ARENA_MAX": "4"}),
    ],
)
def test_a_learner_that_pulls_chunks_has_one_heap(
    given: dict[str, str], visible: str | None, n_envs: int, expected: dict[str, str]
) -> None:
    config = Config.of(ALGORITHMS["dqn"].config, {"env": "E", "n_envs": n_envs})
    frames = EnvSpec((84, 84, 1), "uint8", 4, 2)
    parts: Any = RunParts.__new__(RunParts)
    parts._run = build_run(ALGORITHMS["dqn"], config, frames)
    parts._variables, parts._learner_gpus = given, 0.0
    parts._blind = parts._environment(None)
    parts._reserved = SimpleNamespace(visible_gpus=visible)
    wanted = {"runtime_env": {"env_vars": expected}} if expected else {}
    assert parts._learner_environment() == wanted
