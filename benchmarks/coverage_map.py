"""Maps lines to the tests that run them: `python -m benchmarks.coverage_map JSON`.

The argument has `tests`, the directories of tests, and `lines`, by file. The last line
of the output is JSON: the seconds of each passed test, and the tests that run each of
these lines and any line of each file, or of those that import it. Lines that only run
at import, or in code converted by AutoGraph, have no tests.
"""

import inspect
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import coverage
import pytest

_OF_PROCESSES = {"forked", "processes", "subprocess"}
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
    """Return whether a test runs alone, or starts a process by itself or a fixture."""
    if item.get_closest_marker("alone") or _FIXTURES & {*item.fixturenames}:
        return True
    names, new = set[str](), {*item.fixturenames, item.function.__name__}
    while new:
        names |= new
        values = [vars(item.module).get(name) for name in new]
        if any(map(_is_of_processes, values)):
            return True
        new = {x for value in values for x in _names_used(value)} - names
    return False


def _is_of_processes(value: Any) -> bool:
    module = value if isinstance(value, ModuleType) else inspect.getmodule(value)
    return module is not None and module.__name__ in _OF_PROCESSES


def _names_used(value: Any) -> set[str]:
    """Return the global names that a function's code uses; none for other values."""
    codes, names = [getattr(inspect.unwrap(value), "__code__", None)], set[str]()
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            names.update(code.co_names)
            codes += code.co_consts
    return names


def _tests_of(data: coverage.CoverageData, file: Path) -> set[str]:
    """Return the tests that run a line of a file, or else of one that imports it."""
    imports = re.compile(rf"^from .*\b{file.stem}\b", re.MULTILINE)
    measured = data.measured_files()
    importers = [x for x in measured if imports.search(Path(x).read_text("utf-8"))]
    own, others = (
        {test for each in files for test in _contexts(data, each)}
        for files in ([str(file)], importers)
    )
    return own or others


def _contexts(data: coverage.CoverageData, file: str) -> set[str]:
    found = data.contexts_by_lineno(file).values()
    return {test for tests in found for test in tests if test}


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
        by_file[file] = sorted(_tests_of(lines.get_data(), Path(file).absolute()))
    print(json.dumps({"seconds": seconds, "by_line": by_line, "by_file": by_file}))


if __name__ == "__main__":
    main()
