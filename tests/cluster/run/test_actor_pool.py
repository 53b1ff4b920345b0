"""Starting, restoring and replacing env actors; Ray is a fake with its own clock."""

from typing import Any

import pytest
from fake_ray import NEVER, FakeActor, FakeRay, Takes, crash

from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run.actor_pool import ActorPool
from xagents_ray.core.errors import Broken, Stopped
from xagents_ray.core.signals import Signals


class _EnvActor:
    """An env actor that has taken a state after some seconds.

    Args:
        restores: seconds that this takes.
        dropped: episodes that it drops then.
        error: what its start raises.
    """

    def __init__(
        self, restores: float = 1.0, dropped: int = 0, error: Exception | None = None
    ) -> None:
        self._restored, self._error = Takes(restores, dropped), error

    def ready(self) -> None:
        if self._error is not None:
            raise self._error

    def restart(self, session: int) -> None: ...

    def restore(self, state: Any) -> Takes:
        return self._restored

    def close(self) -> None: ...


def pool_of(
    ray: FakeRay, *actors: FakeActor, n_envs: int = 4, **settings: Any
) -> ActorPool:
    """Return a pool of these actors, each with `n_envs` environments."""
    signals = Signals()
    signals.on_first = None
    shares = [n_envs] * len(actors)
    return ActorPool(RayCalls(ray, signals), shares, actors.__getitem__, 3, **settings)


def actor(ray: FakeRay, starts: float = 1.0, **settings: Any) -> FakeActor:
    return FakeActor(ray, _EnvActor(**settings), starts)


def sessions(each: FakeActor) -> list[int]:
    """Return the sessions whose episodes an actor was asked to begin."""
    return [given[0] for name, given in each.asked if name == "restart"]


def test_replacements_begin_episodes_that_nobody_else_has(ray: FakeRay) -> None:
    """Multiples of 65,536 are added to the session of the run, which is smaller."""
    made: list[FakeActor] = []

    def make(number: int) -> FakeActor:
        made.append(actor(ray))
        return made[-1]

    signals = Signals()
    signals.on_first = None
    pool = ActorPool(RayCalls(ray, signals), [4, 4], make, 9)
    pool.wait_until_ready()
    pool.fail(pool.slots[1], "died")
    pool.restart(7)
    for _ in range(2):
        pool.fail(pool.slots[0], "died")
    assert [sessions(each) for each in made] == [
        [7],
        [],
        [65_536, 7],
        [7 + 65_536],
        [7 + 2 * 65_536],
    ]


def test_each_actor_has_two_minutes_to_take_its_state(ray: FakeRay) -> None:
    """After the one before it; the episodes that could not be resumed are counted."""
    actors = [
        actor(ray, restores=100.0, dropped=1),
        actor(ray, restores=200.0, dropped=2),
        actor(ray, restores=400.0),
        actor(ray, restores=NEVER),
        actor(ray),
    ]
    pool = pool_of(ray, *actors)
    pool.wait_until_ready()
    began = ray.now
    assert pool.restore([None] * 5, 1) == 1 + 2 + 4 + 4
    # The third one is waited for until two minutes after the second, and the fourth
    # no longer than one look takes.
    assert ray.now - began == pytest.approx(320.2, abs=0.01)
    assert [slot.failures for slot in pool.slots] == [0, 0, 1, 1, 0]


def test_looking_at_actors_takes_no_time(ray: FakeRay) -> None:
    pool = pool_of(ray, actor(ray), actor(ray, starts=50.0))
    ray.sleep(2.0)
    began = ray.now
    assert [slot.number for slot in pool.check_starting()] == [0]
    assert ray.now == began and pool.n_ready == 1


def test_claims_are_looked_up_every_ten_seconds(ray: FakeRay) -> None:
    """And only while an actor isn't ready: the lookup asks Ray's control service."""
    lookups: list[float] = []

    def lost() -> tuple[int, ...]:
        lookups.append(ray.now)
        return ()

    made = actor(ray, starts=34.0)
    pool = pool_of(ray, made, make_elsewhere=lambda _: made, lost_claims=lost)
    began = ray.now
    while ray.now < began + 60.0:
        pool.check_starting()
        ray.sleep(1.0)
    assert [when - began for when in lookups] == [0.0, 10.0, 20.0, 30.0]


def test_a_start_is_late_after_two_minutes(ray: FakeRay) -> None:
    pool = pool_of(ray, actor(ray), actor(ray, starts=NEVER))
    began = ray.now
    pool.check_starting()
    ray.sleep(120.0)
    pool.check_starting()
    assert not pool.slots[1].is_overdue
    ray.sleep(0.5)
    pool.check_starting()
    assert pool.slots[1].is_overdue and ray.now == began + 120.5


@pytest.mark.parametrize("n_envs", [120, 121, 500])
def test_each_of_many_environments_has_a_second_to_be_made(
    ray: FakeRay, n_envs: int
) -> None:
    """500 games of Pong took more than two minutes beside other work."""
    pool_of(ray, actor(ray, starts=n_envs - 0.5), n_envs=n_envs).wait_until_ready()
    pool, began = pool_of(ray, actor(ray, starts=NEVER), n_envs=n_envs), ray.now
    late = f"No env actor started within {n_envs} s: .* lower --n-envs"
    with pytest.raises(Broken, match=late):
        pool.wait_until_ready()
    assert ray.now - began == pytest.approx(n_envs, abs=0.5)


def test_the_first_starts_wait_as_long_as_others_begin(ray: FakeRay) -> None:
    """The second one takes too long for itself, but not after the third."""
    third = actor(ray, starts=100.0)
    pool = pool_of(ray, actor(ray), actor(ray, starts=150.0), third)
    began = ray.now
    pool.wait_until_ready()
    assert pool.is_complete and ray.now == pytest.approx(began + 150.0, abs=1.0)


def test_a_signal_ends_the_start_at_once(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xagents_ray.core.signals.GRACE_SECONDS", 0.0)
    pool, began = pool_of(ray, actor(ray, starts=NEVER)), ray.now
    pool._calls._signals.press(15)
    with pytest.raises(Stopped):
        pool.wait_until_ready()
    assert ray.now - began == pytest.approx(0.2)


def test_starts_of_others_are_not_waited_for_where_one_fails_twice(
    ray: FakeRay,
) -> None:
    pool = pool_of(ray, actor(ray, error=crash()), actor(ray, starts=50.0))
    began = ray.now
    with pytest.raises(Broken, match="No env actor can create its environments: "):
        pool.wait_until_ready()
    assert ray.now - began < 1.5


def test_an_environment_that_fails_twice_fails_always(ray: FakeRay) -> None:
    pool = pool_of(ray, *(actor(ray, error=crash()) for _ in range(2)))
    began = ray.now
    with pytest.raises(Broken, match="No env actor can create its environments: "):
        pool.wait_until_ready()
    assert ray.now - began == 1.0
