"""Which tests run which lines: `python -m benchmarks.coverage_map JSON`.

JSON holds `tests`, the folders of tests, and `lines`, by file. The last line printed is
JSON: the seconds of each test that passed, and the tests that run each of these lines
and any line of each file. A line that runs only at import, or only as code that
AutoGraph has converted, belongs to no test.
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
"""Modules with which tests start processes, whose lines are not seen here."""
_FIXTURES = {"train", "train_all", "greedy_mean", "cluster", "start_cluster"}
"""Fixtures that do so."""


class Recorder:
    """A plugin of pytest that names the lines' contexts and times each test.

    Args:
        lines: the recorder of executed lines.
    """

    def __init__(self, lines: coverage.Coverage) -> None:
        self._lines = lines
        self._others: set[str] = set()
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that run in this process, and need no machine of their own."""
        items[:] = [item for item in items if not _starts_processes(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run a test in a context of its own."""
        self._lines.switch_context(item.nodeid)
        start = time.perf_counter()
        result = yield
        self._seconds[item.nodeid] = time.perf_counter() - start
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that has not passed."""
        if not report.passed:
            self._others.add(report.nodeid)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each test that passed, the fastest first."""
        fastest = sorted(self._seconds.items(), key=lambda item: item[1])
        return {test: took for test, took in fastest if test not in self._others}


def _starts_processes(item: pytest.Item) -> bool:
    used = {getattr(value, "__module__", "") for value in vars(item.module).values()}
    used |= {getattr(value, "__name__", "") for value in vars(item.module).values()}
    is_alone = item.get_closest_marker("alone") is not None
    return is_alone or bool(used & _OF_PROCESSES or _FIXTURES & {*item.fixturenames})


def main() -> None:
    """Run the tests; print what they run."""
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
