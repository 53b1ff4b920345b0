"""Maps lines to the tests that run them: `python -m benchmarks.coverage_map JSON`.

The argument has `tests`, the directories of tests, and `lines`, by file. The last line
of the output is JSON: the seconds of each passed test, and the tests that run each of
these lines and any line of each file. Lines that only run at import, or in code
converted by AutoGraph, have no tests.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_OF_PROCESSES = {"forked", "processes"}
"""Modules with which tests start processes, whose coverage isn't recorded."""
_FIXTURES = {"train", "train_all", "greedy_mean", "cluster", "start_cluster"}
"""Fixtures that start processes."""


class Recorder:
    """A pytest plugin that sets a coverage context per test and times the tests.

    Args:
        lines: coverage measurement.
    """

    def __init__(self, lines: coverage.Coverage) -> None:
        self._lines = lines
        self._others: set[str] = set()
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect tests that start processes or have to run alone."""
        items[:] = [item for item in items if not _starts_processes(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run a test in its own coverage context; measure its time."""
        self._lines.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self._seconds[item.nodeid] = time.perf_counter() - start
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test that did not pass."""
        if not report.passed:
            self._others.add(report.nodeid)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each passed test, the fastest first."""
        fastest = sorted(self._seconds.items(), key=lambda item: item[1])
        return {test: took for test, took in fastest if test not in self._others}


def _starts_processes(item: pytest.Item) -> bool:
    used = {getattr(value, "__module__", "") for value in vars(item.module).values()}
    used |= {getattr(value, "__name__", "") for value in vars(item.module).values()}
    is_alone = item.get_closest_marker("alone") is not None
    return is_alone or bool(used & _OF_PROCESSES or _FIXTURES & {*item.fixturenames})


def main() -> None:
    """Run the tests; print the seconds and the map as JSON."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    folders = sorted({str(Path(file).parent.absolute()) for file in asked["lines"]})
    lines = coverage.Coverage(data_file=None, config_file=False, source=folders)
    recorder = Recorder(lines)
    lines.start()
    pytest.main(["-n0", "-q", "-pno:cacheprovider", *asked["tests"]], [recorder])
    lines.stop()
    seconds = recorder.seconds()
    by_line: dict[str, dict[int, list[str]]] = {}
    by_file: dict[str, list[str]] = {}
    for file, wanted in asked["lines"].items():
        found = lines.get_data().contexts_by_lineno(str(Path(file).absolute()))
        by_line[file] = {line: found.get(line, []) for line in wanted}
        by_file[file] = sorted({test for tests in found.values() for test in tests})
    print(json.dumps({"seconds": seconds, "by_line": by_line, "by_file": by_file}))


if __name__ == "__main__":
    main()
