"""How a refusal describes who holds a resource; what Ray says is made up."""

from types import SimpleNamespace
from typing import Any

from xagents_ray.cluster.run.holders import describe_holders
from xagents_ray.cluster.run.nodes import ClusterNode


def ray_with(
    groups: dict[str, float],
    classes: int = 0,
    own: dict[str, float] | None = None,
    kind: str = "CPU",
) -> Any:
    """Return a Ray with placement groups by name, and actors of so many classes."""
    table = {
        name: {"name": name, "state": "CREATED", "bundles": {0: {kind: amount}}}
        for name, amount in groups.items()
    }
    actors = {n: {"ActorClassName": f"mine.Actor{n}"} for n in range(classes)}
    context = SimpleNamespace(get_assigned_resources=lambda: own or {})
    return SimpleNamespace(
        util=SimpleNamespace(placement_group_table=lambda: table),
        _private=SimpleNamespace(
            state=SimpleNamespace(actors=lambda actor_state_name: actors)
        ),
        get_runtime_context=lambda: context,
    )


def described(ray: Any, held: float) -> str:
    """Return the holders of a node with 40 cores; others have none."""
    nodes = [
        ClusterNode("0", {"CPU": 40.0}, {"CPU": 40.0 - held}),
        ClusterNode("1", {"GPU": 1.0}, {}),
        ClusterNode("2", {}, {"GPU": 1.0}),
    ]
    return describe_holders(ray, nodes, "CPU")


def test_the_five_largest_groups_are_named() -> None:
    groups = {f"run-{n}": float(n) for n in range(1, 8)}
    assert described(ray_with(groups), 28.0) == (
        "run-7 holds 7, run-6 holds 6, run-5 holds 5, run-4 holds 4, run-3 holds 3, "
        "2 further placement groups hold 3"
    )
    assert "further" not in described(ray_with(dict(list(groups.items())[:5])), 15.0)
    assert described(ray_with({"a": 1.0}, kind="GPU"), 0.0) == ""


def test_what_no_group_holds_is_of_tasks_and_actors() -> None:
    ray = ray_with({"run": 1.0}, classes=2, own={"CPU": 2.0})
    assert described(ray, 4.5) == (
        "run holds 1, the Ray task or actor that began this run holds 2, "
        "tasks and actors (actors here: Actor0, Actor1) hold 1.5"
    )


def test_a_hundredth_is_a_rounding_error() -> None:
    assert described(ray_with({"run": 1.0}, own={"CPU": 2.0}), 1.01) == "run holds 1"
    assert "hold 0.015" in described(ray_with({"run": 1.0}), 1.015)


def test_five_classes_of_actors_are_named() -> None:
    names = "Actor0, Actor1, Actor2, Actor3, Actor4"
    assert f"(actors here: {names})" in described(ray_with({}, classes=5), 1.0)
    assert f"(actors here: {names} and 2 more)" in described(
        ray_with({}, classes=7), 1.0
    )
