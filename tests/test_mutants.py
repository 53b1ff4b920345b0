"""Mutants: which there are, and what becomes of them."""

from pathlib import Path

import pytest
from checkout import ROOT  # noqa: F401

from benchmarks import mutation
from benchmarks.mutants import Mutant, find_mutants
from benchmarks.mutation import Copy

SOURCE = '''"""Has 7 words."""

LIMIT: "tuple[3]" = 4_000


def doubled(x: "x[2]", é: str = "ü") -> "x[3]":
    """Return 2 x."""
    assert x != 5
    if x > 9:
        raise ValueError(f"{x + 1} > 9", 8)
    left = -x
    while left < 0:
        left += 1
    return x + left + (  # + 1
        x
    ) - 1e-5 + 1e-5


def nobody() -> bool:
    return doubled(0) == 0 and "1" + "2" is not None


from learners.only import SIZE

MOST = 5


def most(more: int = 0) -> int:
    return MOST


class Most:
    size: int = 6
'''
TESTS = """
import subprocess
import time

import pytest

from learners import numbers


@pytest.mark.parametrize("x", [2, 3])
def test_doubled(x):
    assert numbers.doubled(x) == 2 * x


def test_most():
    assert numbers.most() == 5


def test_slow():
    time.sleep(0.5)
    assert numbers.doubled(9) == 18


def test_that_fails():
    assert numbers.nobody() is None


def test_with_a_process():
    assert numbers.doubled(2) == 4
    start_process()


def start_process():
    subprocess.run(["true"], check=True)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for file, text in {
        "learners/__init__.py": "",
        "learners/numbers.py": SOURCE,
        "learners/only.py": "SIZE = 2\n",
        "learners/unused.py": "LIMIT = 3\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "tests/test_numbers.py": TESTS,
    }.items():
        path = tmp_path / "root" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "root"


def test_numbers_comparisons_and_signs_change(checkout: Path) -> None:
    found = find_mutants(checkout, ["learners"])
    source = SOURCE.encode()
    assert sorted(
        (mutant.lines, mutant.told(source).removeprefix("learners/numbers.py:"))
        for mutant in found
        if mutant.file == "learners/numbers.py"
    ) == [
        ((), "33: size: int = 6 → size: int = 12"),
        ((), '3: LIMIT: "tuple[3]" = 4_000 → LIMIT: "tuple[3]" = 8000'),
        ((9,), "9: if x > 9: → if x > 18:"),
        ((9,), "9: if x > 9: → if x >= 9:"),
        ((11,), "11: left = -x → left = x"),
        ((12,), "12: while left < 0: → while left < 1:"),
        ((12,), "12: while left < 0: → while left <= 0:"),
        ((13,), "13: left += 1 → left += 2"),
        ((13,), "13: left += 1 → left -= 1"),
        ((14, 15, 16), "14: return x + left + (  # + 1 → return x + left - (  # + 1"),
        ((14, 15, 16), "14: return x + left + (  # + 1 → return x - left + (  # + 1"),
        ((14, 15, 16), "16: ) - 1e-5 + 1e-5 → ) + 1e-5 + 1e-5"),
        ((14, 15, 16), "16: ) - 1e-5 + 1e-5 → ) - 0.01 + 1e-5"),
        ((14, 15, 16), "16: ) - 1e-5 + 1e-5 → ) - 1e-5 + 0.01"),
        ((14, 15, 16), "16: ) - 1e-5 + 1e-5 → ) - 1e-5 - 1e-5"),
        (
            (20,),
            '20: return doubled(0) == 0 and "1" + "2" is not None'
            ' → return doubled(0) != 0 and "1" + "2" is not None',
        ),
        (
            (20,),
            '20: return doubled(0) == 0 and "1" + "2" is not None'
            ' → return doubled(0) == 1 and "1" + "2" is not None',
        ),
        (
            (20,),
            '20: return doubled(0) == 0 and "1" + "2" is not None'
            ' → return doubled(1) == 0 and "1" + "2" is not None',
        ),
        ((29,), "25: MOST = 5 → MOST = 10"),  # where it is used
        (
            (29,),
            "28: def most(more: int = 0) -> int: → def most(more: int = 1) -> int:",
        ),
    ]


def test_tests_of_the_file_itself_are_tried_first() -> None:
    own, other = "tests/learners/test_numbers.py::test_x", "tests/test_other.py::test_y"
    mutant = Mutant("learners/numbers.py", (7,), 0, "1", "2")
    covered = {
        "seconds": {other: 0.1, "tests/test_none.py::test_z": 0.2, own: 9.0},
        "by_line": {mutant.file: {"7": [other, own]}},
        "by_file": {mutant.file: []},
    }
    assert [*mutation._suited(mutant, covered).items()] == [(own, 9.0), (other, 0.1)]


def test_what_becomes_of_mutants(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_text = {
        mutant.told((checkout / mutant.file).read_bytes()).partition(" → ")[2]: mutant
        for mutant in find_mutants(checkout, ["learners"])
    }
    drawn = ["left = x", 'LIMIT: "tuple[3]" = 8000', "if x >= 9:", "LIMIT = 6"]
    nobody = 'return doubled(1) == 0 and "1" + "2" is not None'
    drawn += [nobody, "SIZE = 4", "MOST = 10", "left -= 1", "left += 2"]
    monkeypatch.setattr(mutation, "_SECONDS_OF_TESTS", 0.4)
    copy = Copy(checkout, tmp_path)
    outcomes = copy.outcomes([by_text[x] for x in drawn], ["tests"])
    outcome = next(outcomes)
    assert outcome.verdict == "killed"
    assert outcome.reason.startswith("tests/test_numbers.py::test_doubled[")
    # One runs on import, one in a test that takes too long.
    assert next(outcomes)[1:] == ("survived", "3 of 4 tests ran")
    assert next(outcomes)[1:] == ("survived", "2 of 3 tests ran")
    assert next(outcomes)[1:] == ("survived", "no test runs it")
    # Only a test that fails anyway runs it, as if AutoGraph had converted it.
    assert next(outcomes)[1:] == ("survived", "3 of 4 tests ran")
    # The tests are those of the module that imports it.
    assert next(outcomes)[1:] == ("survived", "3 of 4 tests ran")
    assert next(outcomes)[1:] == ("killed", "tests/test_numbers.py::test_most")
    monkeypatch.setattr(mutation, "_SECONDS", 3.0)
    assert next(outcomes)[1:] == ("killed", "3 s passed")
    monkeypatch.setattr(mutation, "_SECONDS_OF_TESTS", 0.0)
    assert next(outcomes)[1:] == ("not decided", "its tests take too long")
    unknown = ["tests/test_numbers.py::test_nothing"]
    assert copy._verdict(unknown) == ("not decided", "exit code 4")
    assert (checkout / "learners" / "numbers.py").read_text("utf-8") == SOURCE
