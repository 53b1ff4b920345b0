"""Learning results of presets: scores by seed, and the table of all pairs."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import has_changed, resolved_settings, settings_digest
from benchmarks.report import markdown
from benchmarks.zoo import parts_beyond, reported
from xagents_ray.algorithms.presets import AUTO_PRESET
from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.tuning import scores

SUFFIX = ".json"
_BEGIN, _END = "<!-- learned -->", "<!-- end of learned -->"


@dataclass(frozen=True)
class Reached:
    """Greedy evaluation of a run's final weights.

    Attributes:
        mean: mean return of the episodes.
        std: standard deviation of the returns.
        success_rate: fraction of episodes that reached their goals; None if unknown.
        env_steps: env steps of training.
        seconds: seconds of training.
    """

    mean: float
    std: float
    success_rate: float | None
    env_steps: int
    seconds: int


@dataclass(frozen=True)
class Learned:
    """Results of the preset of an agent and an environment with several seeds."""

    agent: str
    env: str
    episodes: int
    seeds: dict[int, Reached]
    settings: Mapping[str, Any] = field(default_factory=dict)  # added to the preset's
    # Seed of the first evaluation episode's start state, the same for all training
    # seeds; None in earlier results, which have start states of their own.
    start_seed: int | None = None
    # All settings that affect what is learned, by flat name; empty in earlier results.
    resolved: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""  # of the resolved settings
    commit: str = ""  # commit of the training

    @property
    def means(self) -> list[float]:
        """Mean return of each seed, in ascending order."""
        return sorted(each.mean for each in self.seeds.values())

    @property
    def worst_seed(self) -> int:
        """Seed with the smallest mean return."""
        return min(self.seeds, key=lambda seed: self.seeds[seed].mean)

    @property
    def command(self) -> str:
        """Command that repeats the training and the evaluation."""
        words = ["--agent", self.agent, "--env", self.env]
        words += ["--seeds", ",".join(map(str, self.seeds))]
        words += ["--episodes", str(self.episodes)]
        for name, value in self.settings.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            words += ["--set", f"{name}={shown}"]
        return f"python -m benchmarks learning {shlex.join(words)}"

    @property
    def is_at_zoo(self) -> bool | None:
        """Whether the mean is at RL Zoo's, before rounding; None without one of it.

        It is if RL Zoo's is at most one standard error larger, or above 495 on
        CartPole, where 500 is the maximum.
        """
        zoo, found = reported(self.agent, self.env), np.array(self.means)
        if zoo is None:
            return None
        mean, error = float(found.mean()), scores.standard_error(found) or 0.0
        return mean + error >= zoo.mean or ("CartPole" in self.env and mean > 495)

    def remarks(self) -> list[str]:
        """Return what a reader of the table's row has to know, in a few words each."""
        today = self._resolved_today()
        found = parts_beyond(self.agent, self.resolved or today)
        zoo = reported(self.agent, self.env)
        if zoo is not None and zoo.agent:
            found.append(f"RL Zoo: {zoo.agent}")
        if self.start_seed is None:
            found.append("own starts")
        if self.digest and self.digest != settings_digest(today):
            found.append("other settings")
        first = re.match("[0-9a-f]+", self.commit)
        if first is None:
            return found
        if first[0] != self.commit:  # as in 15ebc54+
            found.append("uncommitted changes")
        has_aged = {True: ["older code"], None: ["commit not in this clone"]}
        return found + has_aged.get(has_changed(first[0], self.agent), [])

    def _resolved_today(self) -> dict[str, Any]:
        """Return the settings that the same command has today; {} if it fails."""
        asked = {"env": self.env, "preset": AUTO_PRESET, "local": True, **self.settings}
        try:
            return resolved_settings(self.agent, asked)
        except UserError:
            return {}

    def row(self) -> list[str]:
        """Return the cells of the table's row."""
        found = np.array(self.means)
        zoo, each = reported(self.agent, self.env), list(self.seeds.values())
        rates = [one.success_rate for one in each if one.success_rate is not None]
        success = f", success {min(rates):.2f}" if rates else ""
        return [
            self.agent,
            self.env + _beside(self.settings),
            _steps(max(one.env_steps for one in each)),
            " · ".join(map(_number, self.means)) + success,
            f"{self.worst_seed} of {_ranges(self.seeds)}",
            _mean(found),
            _robust_mean(found),
            "–" if zoo is None else f"{zoo.mean:g} @ {_steps(zoo.env_steps)}",
            _minutes(sum(one.seconds for one in each)),
            self._links(),
            ", ".join(self.remarks()) or "–",
        ]

    def _links(self) -> str:
        """Return links to the row's files, which lie in `results` beside the page."""
        files = f"results/{file_name(self.agent, self.env)}"
        numbers = "command and settings" if self.resolved else "numbers"
        kinds = {numbers: SUFFIX, "history": ".parquet", "curve": ".svg"}
        return " · ".join(f"[{k}]({files}{suffix})" for k, suffix in kinds.items())

    def sentence(self) -> str:
        """Return a one-line summary."""
        cells = self.row()
        return f"{cells[0]} {cells[1]}, {cells[2]} env steps: {cells[3]}; {cells[5]}"


HEADS = (
    "agent", "environment", "env steps", "seeds, worst first", "worst seed",
    "mean ± standard error", "IQM [95 %]", "RL Zoo", "time", "files", "remarks",
)  # fmt: skip


def file_name(agent: str, env: str) -> str:
    """Return the name of a pair's files, without suffix."""
    return f"{agent}-{env.replace(':', '-').replace('/', '-')}"


def read_all(results: Path) -> list[Learned]:
    """Return the results in a directory, sorted by environment and agent."""
    found = map(read_learned, results.glob(f"*{SUFFIX}"))
    return sorted(found, key=lambda each: (each.env, each.agent))


def read_learned(path: Path) -> Learned:
    """Return the results in a file."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    seeds = {int(seed): Reached(**each) for seed, each in stored["seeds"].items()}
    names = {each.name for each in fields(Learned)}
    facts = {name: stored[name] for name in names & stored.keys()}
    return Learned(**{**facts, "seeds": seeds})


def around_table(page: Path) -> tuple[str, str]:
    """Return the text before and after the table of all pairs in a page.

    Raises:
        UserError: the page can't be read, or the table's markers are missing.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{page}: {error.strerror}; name a page that has {_BEGIN} and {_END}."
        ) from None
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise UserError(f"{page} has no place for a table: add {_BEGIN} and {_END}.")
    return before, after


def replace_table(page: Path, learned: Sequence[Learned]) -> None:
    """Replace the table of all pairs in a page; UserError if that fails."""
    before, after = around_table(page)
    table = markdown([HEADS, *(each.row() for each in learned)])
    shown = f"{_BEGIN}\n\n{table}\n\n{comparison(learned)}\n\n{_END}"
    try:
        page.write_text(f"{before}{shown}{after}", "utf-8")
    except OSError as error:
        raise UserError(f"{page}: {error.strerror}.") from None


def comparison(learned: Sequence[Learned]) -> str:
    """Return a paragraph on how many results are at RL Zoo's, and which aren't."""
    compared = [each for each in learned if each.is_at_zoo is not None]
    others = [each for each in compared if not each.is_at_zoo]
    reached = len(compared) - len(others)
    text = (
        f"Of the {pluralize(len(compared), 'pair')} that both have, {reached} are at "
        "RL Zoo's mean, within a standard error of it, or above 495 on CartPole, all "
        "compared before rounding."
    )
    names = ", ".join(f"{each.agent} on {each.env}" for each in others)
    return f"{text} The others: {names}." if others else text


def _beside(settings: Mapping[str, Any]) -> str:
    """Return a description of the settings in addition to the preset's."""
    shown = ", ".join(f"`{name}={value}`" for name, value in settings.items())
    return f" with {shown}" if shown else ""


def _ranges(seeds: Iterable[int]) -> str:
    """Format numbers, each sequence of consecutive ones as a range: 1–3, 7."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][-1] + 1:
            found[-1].append(seed)
        else:
            found.append([seed])
    ends = [dict.fromkeys((each[0], each[-1])) for each in found]
    return ", ".join("–".join(map(str, each)) for each in ends)


def _mean(found: scores.Floats) -> str:
    """Format the mean, and its standard error, if any, with the same decimals."""
    mean, error = _number(float(found.mean())), scores.standard_error(found)
    decimals = len(mean.partition(".")[2])
    return mean if error is None else f"{mean} ± {error:.{decimals}f}"


def _robust_mean(found: scores.Floats) -> str:
    """Format the interquartile mean, and its interval if there are several scores."""
    mean = _number(float(scores.interquartile_mean(found)))
    if len(found) == 1:
        return mean
    low, high = map(float, scores.iqm_interval(found))
    return f"{mean} [{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    """Format a return with three significant digits, or as a whole number from 100."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _steps(count: int) -> str:
    """Format env steps, rounded: 100k or 1M."""
    millions = count / 1e6
    return f"{millions:.3g}M" if millions >= 1 else f"{count / 1e3:.3g}k"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
