"""SECURITY.md names the test of each promise."""

import re

from checkout import ROOT

_ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_promise_has_a_test_that_there_is() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    head, *rows = _ROW.finditer(text[text.index("| promise | test |") :])
    assert head["promise"] == "promise" and len(rows) >= 20
    for row in rows:
        tests = _TEST.findall(row["tests"])
        rest = _TEST.sub("", row["tests"]).replace(",", "").strip()
        assert tests and not rest, row["promise"]
        for file, name in tests:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name}(" in source, (row["promise"], file, name)
