"""Where a run spends its time, what limits it, and which flag to change."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from xagents_ray.core.errors import pluralize
from xagents_ray.core.process import available_cores
from xagents_ray.core.trajectory import RolloutReport
from xagents_ray.settings.config import Config
from xagents_ray.settings.options import options

PARTS = ("stepping", "acting", "transport", "replay", "learning", "waiting")
"""Parts of the time; `waiting` is that of the env actors."""
_OVERLAP = 0.2
"""Smaller share of acting and learning above which overlapping them pays off."""
_DROPPED = 0.2
"""Share of dropped rollouts above which --policy-lag is too small."""
_IDLE = 0.5
"""CPU utilization below which environments mostly wait."""
_STARVED = 0.5
"""Share of the time in which a GPU learns below which it mostly waits."""
_MANY_ENVS = 32
"""Environments of an env actor from which more are no remedy for acting."""


class Profile:
    """Seconds by part since the run began.

    Stepping and acting are averages over the env actors. With --policy-lag 1 or more,
    learning overlaps with them, so the shares may add up to more than 1.
    """

    def __init__(self, config: Config, n_actors: int, learns_on_gpu: bool) -> None:
        self._config, self.n_actors = config, n_actors
        self._learns_on_gpu = learns_on_gpu
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._rollouts = self._dropped = 0
        self._computing = 0.0
        self._first_phase: float | None = None  # duration in seconds, once it has ended
        self._n_phases = 0
        self._began, self._ended = time.perf_counter(), 0.0

    def stop(self) -> None:
        self._ended = time.perf_counter()

    def collected(
        self,
        reports: Sequence[RolloutReport],
        replay: float,
        waited: float,
        dropped: Sequence[RolloutReport] = (),
    ) -> None:
        """Count a round of rollouts, and dropped ones that were too old to learn from.

        `replay` is the duration of the insertions, `waited` that of the wait for the
        round, both in seconds.
        """
        done = [*reports, *dropped]
        self._rollouts += len(done)
        self._dropped += len(dropped)
        self._computing += sum(r.computing for r in done)
        stepping = sum(r.stepping for r in done)
        busy = sum(r.seconds for r in done)
        self._seconds["stepping"] += stepping / self.n_actors
        self._seconds["acting"] += (busy - stepping) / self.n_actors
        self._seconds["replay"] += replay
        longest = max(r.seconds for r in reports)
        self._on_the_way(waited - longest - replay)

    def learned(self, phases: Iterable[dict[str, float]], waited: float) -> None:
        """Count phases that arrived after `waited` seconds; pop their seconds."""
        each = [metrics.pop("seconds", 0.0) for metrics in phases]
        if each and self._first_phase is None:
            self._first_phase = each[0]
        self._seconds["learning"] += sum(each)
        self._n_phases += len(each)
        self._on_the_way(waited - sum(each))

    @property
    def shares(self) -> dict[str, float]:
        """Share of the time since the run began, without compilation, by part."""
        compiling = self._compiling
        passed = (self._ended or time.perf_counter()) - self._began - compiling
        seconds = {**self._seconds, "learning": self._seconds["learning"] - compiling}
        shares = {part: seconds[part] / max(passed, 1e-9) for part in PARTS}
        busy = shares["stepping"] + shares["acting"]
        shares["waiting"] = max(0.0, 1 - busy)
        return shares

    @property
    def _compiling(self) -> float:
        """Seconds by which the first learning phase exceeds the mean of the others."""
        if self._first_phase is None or self._n_phases == 1:
            return 0.0
        later = self._seconds["learning"] - self._first_phase
        return max(0.0, self._first_phase - later / (self._n_phases - 1))

    @property
    def limit(self) -> str:
        """The part that takes the most time."""
        return max(PARTS[:-1], key=self.shares.__getitem__)

    @property
    def advice(self) -> str:
        """What to change for more speed, in a few words."""
        shares = self.shares
        acting = shares["stepping"] + shares["acting"]
        if self._dropped > _DROPPED * self._rollouts:
            lost = self._dropped / self._rollouts
            return f"raise --policy-lag: {lost:.0%} of the rollouts are too old for it"
        if not self._overlaps and min(acting, shares["learning"]) > _OVERLAP:
            return "--policy-lag 1 overlaps acting and learning"
        if self._starves_gpu:
            n_envs = self._config.env.n_envs
            each = pluralize(n_envs // self.n_actors, "environment")
            return (
                f"raise --n-envs to {2 * n_envs}: with {each} per env actor the GPU "
                f"learns {shares['learning']:.0%} of the time"
            )
        return self._remedy(self.limit)

    def sentence(self) -> str:
        shares = ", ".join(f"{k} {v:.0%}" for k, v in self.shares.items())
        first = self._first_phase
        compiled = "" if first is None else f"; first learning phase {first:.1f} s"
        return f"{shares}{compiled}; limited by {self.limit}: {self.advice}"

    def summary(self) -> dict[str, Any]:
        """Return the profile as JSON-able values."""
        shares = {part: round(share, 4) for part, share in self.shares.items()}
        return {
            "shares": shares,
            "first_phase_seconds": self._first_phase,  # includes compilation
            "limited_by": self.limit,
            "advice": self.advice,
        }

    @property
    def _overlaps(self) -> bool:
        return self._config.pipeline.policy_lag > 0

    @property
    def _starves_gpu(self) -> bool:
        """Whether a GPU waits for env actors that act for few environments at once."""
        shares, envs = self.shares, self._config.env.n_envs / self.n_actors
        acts_long = shares["acting"] > _OVERLAP * shares["stepping"]
        waits = self._learns_on_gpu and shares["learning"] < _STARVED
        is_first = self.limit in ("stepping", "acting")
        return waits and is_first and acts_long and envs < _MANY_ENVS

    @property
    def _cores_are_idle(self) -> bool:
        """Whether the env actors would step faster with more processes."""
        if self._config.env.vectorization == "async":
            return False  # CPU time of the environments' processes isn't counted
        passed = (self._ended or time.perf_counter()) - self._began
        busy = self.n_actors * (self._seconds["stepping"] + self._seconds["acting"])
        return self._computing < _IDLE * min(busy, passed * available_cores())

    def _on_the_way(self, seconds: float) -> None:
        """Count the rest of a wait; unknown if acting and learning overlap."""
        if not self._overlaps:
            self._seconds["transport"] += max(0.0, seconds)

    def _remedy(self, part: str) -> str:
        """Return advice on how to reduce the time of a part."""
        known = options(type(self._config.algorithm))
        flags = " or ".join(each.flag for each in known if each.remedy_for == part)
        if part == "stepping":
            placement, n_envs = self._config.placement, self._config.env.n_envs
            if placement.local and available_cores() > 1 and n_envs > 1:
                return "leave out --local: env actors use every core"
            if self.n_actors < n_envs and self._cores_are_idle:
                more = f"raise --n-actors, up to {n_envs}"
                return f"{more}: the environments wait more than they compute"
            if self.n_actors < min(available_cores(), n_envs):
                return f"raise --n-actors to {min(available_cores(), n_envs)}"
            if n_envs < 2 * available_cores():
                return "raise --n-envs, or add machines with --address"
            return "add machines with --address, or cores"
        if part == "learning":
            change = f", or change {flags}" if flags else ""
            return f"a GPU for the learner, or a smaller network{change}"
        return {
            "acting": "raise --n-envs, which act together, or take a smaller network",
            "transport": f"raise {flags}: longer rollouts",
            "replay": f"raise {flags}",
        }[part]
