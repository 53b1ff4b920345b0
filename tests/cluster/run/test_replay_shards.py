"""The shards of a replay: what travels to the driver and back, and what fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import FakeActor, FakeRay, Ref, full
from ray.exceptions import ObjectLostError

from xagents_ray.actors.envs import make
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.ray.calls import RayCalls
from xagents_ray.cluster.run import shard_pieces
from xagents_ray.cluster.run.replay_service import ReplayService
from xagents_ray.cluster.run.replay_shards import ReplayShards
from xagents_ray.core.errors import Broken, UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Fill, PriorityUpdate, Trajectory
from xagents_ray.run.replay_buffer import load_replay, replay_for, save_replay
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import replay_file

_SPEC = EnvSpec((84, 84), "uint8", 4, 6)
_SMALL = 5_000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_pieces, "PIECE_BYTES", _SMALL)


def _run(buffer_max_size: int = 60, **more: Any) -> RunSpec:
    settings = {"env": "PongNoFrameskip-v4", "n_envs": 3, "replay_shards": 2, **more}
    sizes = {"buffer_max_size": buffer_max_size, "rollout_length": 8}
    row = find_algorithm("dqn")
    config = Config.of(row.config, {**settings, **sizes, "max_steps": 1})
    return RunSpec(row, config, _SPEC, row.layouts(config.algorithm, _SPEC), seed=5)


class _Elsewhere(ReplayService):
    """A shard on a node without the driver's disk."""

    def _check(self, *arguments: Any) -> None:
        assert not any(isinstance(each, str | Path) for each in arguments)

    def save(self, *arguments: Any) -> None:
        self._check(*arguments)

    def load(self, *arguments: Any) -> None:
        self._check(*arguments)


class _Shards(ReplayShards):
    """Those of a run, in this process.

    Attributes:
        made: their actors, the replaced ones too.
    """

    def __init__(self, ray: FakeRay, run: RunSpec, round_bytes: int = 0) -> None:
        self.ray, self.run = ray, run
        self.made: list[FakeActor] = []
        calls = RayCalls(ray, Signals())
        self.log = calls.log
        super().__init__(
            calls,
            2,
            self._make_one,
            False,
            round_bytes=round_bytes,
            total_envs=0,
            batch_bytes=0,
        )
        self.wait_until_ready()

    def _make_one(self, number: int) -> Any:
        self.made.append(FakeActor(self.ray, _Elsewhere(self.run, number)))
        return self.made[-1]


def _trajectory(number: int) -> Trajectory:
    """Return eight steps of three environments."""
    random = np.random.default_rng(number)
    shape = 8, 3
    starts = np.zeros((12, 3), np.bool_)
    starts[3] = True
    observations = random.integers(255, size=(12, 3, 84, 84), dtype=np.uint8)
    false, true = np.zeros(shape, np.bool_), np.ones(shape, np.bool_)
    actions = random.integers(6, size=shape, dtype=np.int32)
    rewards = random.normal(size=shape).astype(np.float32)
    numbers = observations, starts, actions, rewards, false, false, true
    return Trajectory(*numbers, None, None, 1, 0)


def _filled(ray: FakeRay, run: RunSpec | None = None, round_bytes: int = 0) -> _Shards:
    shards = _Shards(ray, run or _run(), round_bytes)
    for number in range(2):
        shards.insert([Ref(_trajectory(number))])
    assert shards.seconds == 0  # of this clock
    for drawn in shards.sample(1, 4, np.random.default_rng(1)):
        ray.get(drawn)
    return shards


def _save(shards: ReplayShards, folder: Path) -> Path:
    writer = CheckpointWriter(folder, 1)
    return writer.write(1, {}, {}, write_replay=shards.save)


def test_what_shards_hold_goes_to_a_disk_that_they_do_not_see_and_back(
    ray: FakeRay, tmp_path: Path
) -> None:
    run, path = _run(), tmp_path / "checkpoints"
    shards = _filled(ray, run)
    path = _save(shards, path)
    other = _Shards(ray, run)
    other.load(path)
    assert other.fill == shards.fill
    assert other.fill.size > 40
    for one, two in zip(shards.made, other.made, strict=True):
        held, read = (x.instance._replay.arrays() for x in (one, two))
        assert all(np.array_equal(held[name], read[name]) for name in held)
    draws = [x.sample(1, 9, np.random.default_rng(2)) for x in (shards, other)]
    for first, second in zip(*draws, strict=True):
        assert np.array_equal(ray.get(first).rewards, ray.get(second).rewards)


def test_it_travels_in_small_pieces(ray: FakeRay, tmp_path: Path) -> None:
    shards = _filled(ray)
    path = _save(shards, tmp_path / "checkpoints")
    other = _Shards(ray, _run())
    other.load(path)
    pieces = [call for call in shards.made[0].asked if call[0] == "piece"]
    largest = max(end - first for _, (_, first, end) in pieces)
    assert largest == _SMALL
    assert len(pieces) > 40
    put = [given[1] for name, given in other.made[0].asked if name == "put"]
    assert max(map(len, put)) <= _SMALL


def test_three_pieces_of_32_mib_are_in_transit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    asked, taken, most = list[tuple[int, int]](), list[Any](), list[int]()

    def piece(name: str, first: int, end: int) -> str:
        asked.append((first, end))
        most.append(len(asked) - len(taken))
        return name

    def get(reference: Any, limit: float) -> Any:
        if reference == "array":
            taken.append(limit)
        return reference

    arrays = {"array": ("|u1", (200 << 20,))}
    actor: Any = SimpleNamespace(
        open=SimpleNamespace(remote=lambda: arrays),
        piece=SimpleNamespace(remote=piece),
    )
    calls: Any = SimpleNamespace(get=get)
    (found,) = shard_pieces.ShardPieces(calls)._arrays(actor)
    assert len(list(found.pieces)) == 7
    assert asked == [(n * 2**25, (n + 1) * 2**25) for n in range(7)]
    assert most == [1, 2, 3, 3, 3, 3, 3] and taken == [120.0] * 7


def test_the_file_is_that_of_a_run_without_ray(ray: FakeRay, tmp_path: Path) -> None:
    """A run continues with or without Ray."""
    run = _run()
    shards = _filled(ray, run)
    path = _save(shards, tmp_path / "checkpoints")
    save_replay(shards.made[0].instance._replay, tmp_path)
    written = path / "replay" / replay_file(0)
    assert written.read_bytes() == (tmp_path / replay_file(0)).read_bytes()
    own = replay_for(run.algorithm.replay, _SPEC, run.config.algorithm.replay, 3, 5, 1)
    load_replay(own, path, 1)
    assert own.fill == shards.made[1].instance._replay.fill


def test_an_error_of_compute_reward_is_shown_as_it_is() -> None:
    """And isn't taken for lost data, which would be drawn again."""
    settings = {"env": "goal_envs:BrokenRewards", "her": "future", "max_steps": 1}
    given = {**settings, "n_envs": 3, "replay_shards": 2}
    row = find_algorithm("ddpg")
    config = Config.of(row.config, given)
    spec = make.check_env(config.env)
    run = RunSpec(row, config, spec, row.layouts(config.algorithm, spec), seed=5)
    shard = ReplayService(run, 0)
    shard.start()
    steps = _trajectory(0)._replace(
        observations=np.zeros((9, 3, 6), np.float32),
        starts=np.zeros((9, 3), np.bool_),
        actions=np.zeros((8, 3, 2), np.float32),
    )
    shard.insert(steps)
    said = r"no such table \(.*goal_envs.py, line \d+\)"
    with pytest.raises(UserError, match=said):
        shard.sample(1, 300)
    with pytest.raises(UserError, match=said):
        shard.insert()


def test_shards_hold_the_noise_of_trajectories() -> None:
    row, spec = find_algorithm("acer"), EnvSpec((4,), "float32", 1, 2)
    given = {"env": "CartPole-v1", "n_envs": 3, "replay_shards": 2, "max_steps": 1}
    given |= {"noisy": "factorised", "buffer_max_size": 60}
    config = Config.of(row.config, given)
    run = RunSpec(row, config, spec, row.layouts(config.algorithm, spec), seed=5)
    shard = ReplayService(run, 1)
    shard.start()
    units = run.layout.noise_units
    assert shard.open()["network_noise"] == ("<f4", (20, 1, 2, units))
    plain = Config.of(row.config, {**given, "noisy": None})
    layouts = row.layouts(plain.algorithm, spec)
    shard = ReplayService(RunSpec(row, plain, spec, layouts, seed=5), 1)
    shard.start()
    assert "network_noise" not in shard.open()


def test_a_replay_of_another_size_is_refused(ray: FakeRay, tmp_path: Path) -> None:
    path = _save(_filled(ray), tmp_path / "checkpoints")
    with pytest.raises(UserError, match="expected"):
        _Shards(ray, _run(90)).load(path)


class _Takes:
    """A shard that notes how many trajectories it was given."""

    def __init__(self) -> None:
        self.inserted: list[int] = []

    def start(self) -> int:
        return 1

    def insert(self, *trajectories: Any) -> tuple[Fill, float]:
        self.inserted.append(len(trajectories))
        return Fill(sum(self.inserted), False), 0.0


def test_one_lost_trajectory_costs_no_transfer_of_the_others(ray: FakeRay) -> None:
    """With 1,000 actors and 4 shards, these took 200 s."""
    calls, began = RayCalls(ray, Signals()), ray.now
    made = [FakeActor(ray, _Takes()) for _ in range(4)]
    shards = ReplayShards(
        calls,
        4,
        lambda number: made[number],
        False,
        round_bytes=0,
        total_envs=0,
        batch_bytes=0,
    )
    lost = Ref(error=ObjectLostError("1", None, ""))
    shards.insert([*(Ref(n, transit=0.05) for n in range(999)), lost])
    assert [each.instance.inserted for each in made] == [[999]] * 4
    assert calls.log.counts == {"trajectories": 1}
    assert ray.now == began


def test_a_shard_that_dies_while_it_is_saved_costs_the_checkpoint(
    ray: FakeRay, tmp_path: Path
) -> None:
    shards = _filled(ray)
    shards.made[1].die()
    with pytest.raises(OSError, match="a shard of the replay died"):
        shards.save(tmp_path)
    assert len(shards.made) == 3
    assert shards.log.counts["replay shards"] == 1


@pytest.mark.parametrize("method", ["piece", "open"])
def test_a_shard_that_hangs_while_it_is_saved_costs_the_checkpoint(
    ray: FakeRay, method: str, tmp_path: Path
) -> None:
    shards = _filled(ray)
    shards.made[1].hanging.add(method)
    with pytest.raises(OSError, match="takes too long"):
        shards.save(tmp_path)


@pytest.mark.parametrize("method", ["put", "take"])
def test_a_shard_that_hangs_while_it_is_filled_ends_the_run(
    ray: FakeRay, method: str, tmp_path: Path
) -> None:
    path = _save(_filled(ray), tmp_path / "checkpoints")
    other = _Shards(ray, _run())
    other.made[1].hanging.add(method)
    with pytest.raises(Broken, match="Replay shard 1 can't be filled from"):
        other.load(path)


@pytest.mark.parametrize(("seconds", "megabytes"), [(500.0, 1), (1_500.0, 1_000)])
def test_a_shard_whose_data_is_in_transit_is_not_dead(
    ray: FakeRay, seconds: float, megabytes: int
) -> None:
    shards = _filled(ray, round_bytes=megabytes * 2**20)
    before = shards.fill.size
    shards.insert([ray.after(seconds, _trajectory(2))])
    assert not shards.log.counts
    assert shards.fill.size > before


@pytest.mark.parametrize(
    ("state", "seconds"), [("busy", 120), ("suspended", 150), ("without data", 600)]
)
def test_a_shard_that_hangs_while_it_inserts_is_replaced(
    ray: FakeRay, state: str, seconds: int
) -> None:
    shards = _filled(ray)
    before, fill, hanging = ray.now, shards.fill.size, shards.made[1]
    trajectory = Ref(_trajectory(2))
    if state == "busy":
        hanging.hanging.add("insert")
        hanging.instance._work.acquire()
    elif state == "suspended":
        hanging.is_suspended = True
    else:
        hanging.hanging.add("insert")  # as while its data never comes
    assert shards.insert([trajectory]).size < fill + 24
    assert ray.now - before == pytest.approx(seconds, abs=1)
    assert hanging.is_dead
    assert shards.log.counts["replay shards"] == 1
    assert "Replay shard 1 hangs with" in shards.log.warnings[0]


def test_a_late_insertion_of_one_that_was_replaced_is_not_counted(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray takes its time to end the process."""
    shards = _filled(ray)
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    late = shards.made[0]
    held = late.instance._replay.fill.size
    late.is_suspended = True
    fill = shards.insert([Ref(_trajectory(2))])
    late.is_suspended = False
    ray.sleep(10)
    assert late.instance._replay.fill.size > held
    assert shards.insert([]) == fill


def test_one_that_dies_again_and_again_ends_the_run(ray: FakeRay) -> None:
    shards = _filled(ray)
    make = shards._make

    def dying(number: int) -> FakeActor:
        actor: FakeActor = make(number)
        actor.die()
        return actor

    shards._make = dying
    shards.made[0].die()
    with pytest.raises(Broken, match="Replay shard 0 died 4 times in a row"):
        shards.insert([Ref(_trajectory(2))])


def test_asking_for_the_fill_replaces_one_that_died_between_rounds(
    ray: FakeRay,
) -> None:
    shards = _filled(ray)
    shards.made[1].die()
    assert 0 < shards.insert([]).size
    assert shards.log.counts["replay shards"] == 1
    assert "trajectories" not in shards.log.counts


def test_a_replaced_one_is_empty(ray: FakeRay) -> None:
    shards = _filled(ray)
    held, before = shards._fills[1].size, shards.fill.size
    assert 0 < held < before
    shards.replace(1)
    assert shards.fill.size == before - held


def test_empty_ones_are_asked_for_no_trajectories(ray: FakeRay) -> None:
    shards = _Shards(ray, _run())
    shards._draws_trajectories = True
    assert shards.sample(1, 4, np.random.default_rng(1)) == {}


def test_a_trajectory_without_room_is_left_out_after_a_pause(ray: FakeRay) -> None:
    shards = _filled(ray)
    before = shards.fill.size
    assert shards.insert([Ref(_trajectory(2)), full()]).size > before
    assert shards.log.counts == {"trajectories": 1}
    assert "object store" in "".join(shards.log.warnings)
    assert len(shards.made) == 2


def test_a_trajectory_that_is_lost_is_left_out(ray: FakeRay) -> None:
    shards = _filled(ray)
    shards.insert([Ref(_trajectory(2)), Ref(error=ObjectLostError("1", None, ""))])
    assert shards.log.counts == {"trajectories": 1}
    assert shards.log.warnings == []


def test_a_failure_of_a_shard_is_shown_and_not_repeated(ray: FakeRay) -> None:
    shards = _filled(ray)
    with pytest.raises(Broken, match="Replay shard 0 failed"):
        shards.insert([Ref("not a trajectory")])
    assert len(shards.made) == 2


def test_what_was_drawn_names_its_shard(ray: FakeRay) -> None:
    shards = _filled(ray)
    drawn = shards.sample(3, 8, np.random.default_rng(3))
    assert list(drawn.values()) == [0, 1]
    assert sum(ray.get(ref).rewards.size for ref in drawn) == 24
    assert _Shards(ray, _run()).sample(3, 8, np.random.default_rng(3)) == {}


def test_errors_go_to_the_shards_that_hold_their_rows(ray: FakeRay) -> None:
    """The first shard has environment 0; shares follow priorities, not sizes."""
    shards = _filled(ray, _run(prioritized=True))
    draw, generator = (3_000, 1), np.random.default_rng(3)
    drawn = [ray.get(ref) for ref in shards.sample(*draw, generator)]
    assert [set(part.rows[0, :, 0].tolist()) for part in drawn] == [{0}, {1, 2}]
    assert drawn[0].rewards.size == pytest.approx(1_000, abs=100)
    parts = [part.rows[0] for part in drawn]
    errors = [
        np.full(len(rows), size) for rows, size in zip(parts, (9, 1), strict=True)
    ]
    answer = PriorityUpdate(
        np.concatenate(parts), np.concatenate(errors).astype(np.float32)
    )
    shards.update([Ref(answer)])
    assert shards.log.counts == {}
    shards.insert([])
    drawn = [ray.get(ref) for ref in shards.sample(*draw, generator)]
    share = 9**0.6 / (9**0.6 + 2)
    assert drawn[0].rewards.size == pytest.approx(3_000 * share, abs=150)
    shards.replace(0)
    shards.update([Ref(answer)])
    late = {"priorities of replaced transitions": len(parts[0])}
    assert late.items() <= shards.log.counts.items()


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (MemoryError(), Broken, "the cluster lacks memory, lower --buffer-max-size"),
        (ModuleNotFoundError("No module named 'a'"), Broken, "No module named 'a'"),
        (UserError("--env a: it is none."), UserError, "--env a: it is none."),
    ],
)
def test_why_a_shard_does_not_start(
    error: Exception,
    kind: type[Exception],
    said: str,
    ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: ReplayService) -> int:
        raise error

    monkeypatch.setattr(_Elsewhere, "start", start)
    with pytest.raises(kind, match=said):
        _Shards(ray, _run())


def test_a_shard_may_take_two_minutes_to_start(ray: FakeRay) -> None:
    """Lack of memory is not why it takes longer."""
    began = ray.now
    calls, made = RayCalls(ray, Signals()), FakeActor(ray, _Takes(), hanging=["start"])
    shards = ReplayShards(
        calls, 1, lambda n: made, False, round_bytes=0, total_envs=8, batch_bytes=0
    )
    with pytest.raises(Broken, match="it did not start within 120 s, see `ray status`"):
        shards.wait_until_ready()
    assert 120 < ray.now - began < 125


def test_a_shard_gets_the_trajectories_of_its_environments(ray: FakeRay) -> None:
    made = [FakeActor(ray, _Takes()) for _ in range(4)]
    calls = RayCalls(ray, Signals())
    shards = ReplayShards(
        calls, 4, lambda n: made[n], False, round_bytes=0, total_envs=8, batch_bytes=0
    )
    lost = Ref(error=ObjectLostError("1", None, ""))
    shards.insert([Ref(0), Ref(1), Ref(2)], [range(2), range(2, 3), range(3, 4)])
    assert [each.instance.inserted for each in made] == [[1], [2], [], []]
    shards.insert([lost, Ref(3)], [range(1, 6), range(6, 8)])
    assert [each.instance.inserted for each in made] == [[1, 0], [2, 0], [0], [1]]
    assert calls.log.counts == {"trajectories": 1}  # of all shards that lack it
    shards.insert([])  # asks all
    assert [each.instance.inserted[-1] for each in made] == [0] * 4
