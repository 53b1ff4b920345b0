"""A driver without a learner or environments: what happens in it is scripted."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.core.env_shares import EnvShares
from xagents_ray.core.reports import Collected, Evaluated, FailedEvaluation
from xagents_ray.core.trajectory import Episode, Fill, RolloutReport, WeightsFile
from xagents_ray.run.driver import Snapshot
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.weights import decode_npz, encode_npz, read_file

Round = Sequence[float] | Callable[[], Sequence[float]]
Metrics = dict[str, float]


def report(*returns: float) -> RolloutReport:
    """Return that of a rollout in which one episode ended per env step."""
    episodes = tuple(Episode(0, row, r, 1) for row, r in enumerate(returns))
    return RolloutReport(np.ones(len(returns), np.int64), episodes, 0.1)


def learned_in(path: str) -> int:
    """Return the phases that a learner had learned whose models are in a file."""
    return int(decode_npz(read_file(path))["learned"])


class FakeSupervision:
    """Reports what a test says has failed."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.warnings: list[str] = []
        self.printed: list[str] = []
        self.published: list[Mapping[str, float]] = []

    def take_warnings(self) -> list[str]:
        taken, self.warnings = self.warnings, []
        return taken

    def take_printed(self) -> list[str]:
        taken, self.printed = self.printed, []
        return taken

    def when_waiting(self, show: Callable[[], None]) -> None: ...

    def summary(self) -> Mapping[str, float]:
        return {"snapshot_age": 1.5}

    def publish(self, metrics: Mapping[str, float]) -> None:
        self.published.append(metrics)


class FakeDriver:
    """A driver whose learner's state is the number of phases that it has learned.

    Args:
        rounds: returns of the episodes that end in each, one per env step, or a
            function that gives them.
        ahead: phases that are in progress when `learn` returns.
    Attributes:
        fill: of the replay, or None.
        learned: phases of the learner.
        asked: how often the env actors' states were copied.
        events: methods that were called and what they asked for.
        metrics: returns what a phase measures.
        lost: snapshots with so many phases can't be fetched any more.
        scores: means of the evaluations, which end when they are asked for; None where
            one fails.
    """

    n_actors = learner_threads = 1
    learns_on_gpu = False
    shares = EnvShares((1,), 1.0)
    replay_nbytes = 0

    def __init__(self, rounds: Sequence[Round] = (), ahead: int = 0) -> None:
        self._rounds, self._ahead = deque(rounds), ahead
        self._phases: deque[Metrics] = deque()
        self.notes: list[str] = []
        self.supervision: FakeSupervision | None = None
        self.fill: Fill | None = None
        self.learned = self.asked = 0
        self.events: list[tuple[Any, ...]] = []
        self.metrics: Callable[[], Metrics] = lambda: {"loss": 0.5}
        self.lost: set[int] = set()
        self.scores: deque[float | None] = deque()
        self._evaluated: list[Evaluated | FailedEvaluation] = []
        self.on_drain: Callable[[], None] = lambda: None

    @property
    def replay_size(self) -> int | None:
        return None if self.fill is None else self.fill.size

    def collect(self, env_steps: int) -> Collected:
        round_ = self._rounds.popleft()
        returns = round_() if callable(round_) else round_
        return Collected([report(*returns)], self.fill, [0])

    def learn(self, batches: int, env_steps: int, statistics: Any) -> list[Metrics]:
        self.events.append(("learn", batches, env_steps))
        self._phases.append({**self.metrics(), "updates": batches, "seconds": 0.0})
        return self._ended(self._ahead)

    def drain(self) -> list[Metrics]:
        self.on_drain()
        return self._ended(0)

    def _ended(self, but: int) -> list[Metrics]:
        ended = []
        while len(self._phases) > but:
            ended.append(self._phases.popleft())
            self.learned += 1
        return ended

    def scale_lr(self, factor: float) -> float:
        self.events.append(("scale_lr", factor))
        return factor

    def snapshot(self, with_actors: bool) -> Snapshot:
        """Copy the state after the phases in progress, as a queue of calls does."""
        learned = self.learned + len(self._phases)
        actors = [{"noise": [learned], "unfinished": 0}] if with_actors else []
        self.asked += with_actors
        return Snapshot({"learned": np.array(learned)}, actors)

    def fetch(self, snapshot: Snapshot) -> Snapshot | None:
        is_lost = int(snapshot.learner["learned"]) in self.lost
        return None if is_lost else snapshot

    def state(self) -> Snapshot:
        return self.snapshot(with_actors=True)

    def save_replay(self, directory: Path) -> None:
        write_arrays(directory / "replay.npz", {"a": np.zeros(1)})

    def encode(self, snapshot: Snapshot, paths: Sequence[str]) -> list[WeightsFile]:
        content = encode_npz({"learned": snapshot.learner["learned"]})
        return [WeightsFile(path, content) for path in paths]

    def evaluate(self, env_steps: int, longest: int) -> bool:
        if not self.scores:
            return False
        mean = self.scores.popleft()
        failed = FailedEvaluation(env_steps)
        self._evaluated.append(failed if mean is None else Evaluated(env_steps, mean))
        return True

    def evaluations(self, is_last: bool) -> list[Evaluated | FailedEvaluation]:
        self.events.append(("evaluations", is_last))
        ended, self._evaluated = self._evaluated, []
        return ended

    def restore(self, checkpoint: Any, session: int) -> int:
        self.events.append(("restore", session))
        self.learned = int(checkpoint.arrays["learned"])
        return 2

    def close(self) -> None:
        self.events.append(("close",))
