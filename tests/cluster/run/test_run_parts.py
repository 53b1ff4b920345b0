"""The actors of a run: their classes are defined once, and their claims may be lost."""

from types import SimpleNamespace
from typing import Any

import pytest

from xagents_ray.cluster.run.placement import RunParts, remote_class


class _Service: ...


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
    parts._reserved = SimpleNamespace(group="group", bundles=range(3))
    parts._ray = SimpleNamespace(
        nodes=lambda: nodes,
        util=SimpleNamespace(placement_group_table=lambda group: table),
    )
    assert list(parts.lost_claims()) == lost
    parts._reserved.group = None  # its parts share the cores of a Ray task
    assert list(parts.lost_claims()) == []
