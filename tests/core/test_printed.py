"""Lines that environments print where there is no terminal."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from rich.console import Console
from rich.live import Live

from xagents_ray.core.printed import (
    NOTHING,
    PrintCollector,
    Printed,
    PrintLimit,
    relaying_forks,
)


@pytest.fixture
def collector() -> Iterator[PrintCollector]:
    with closing(PrintCollector("Env actor 2")) as made:
        yield made


def test_lines_have_the_name_of_their_process(collector: PrintCollector) -> None:
    with collector.collecting():
        print("hello", 7, True)
        print("größer\n\nlast", end="")
        assert collector.take().lines == (
            "Env actor 2: hello 7 True",
            "Env actor 2: größer",
        )
        print(" line")
    assert collector.take() == Printed(("Env actor 2: last line",))
    assert collector.take() == NOTHING


def test_only_what_is_printed_within_the_block_is_collected(
    collector: PrintCollector, capsys: pytest.CaptureFixture[str]
) -> None:
    with collector.collecting():
        print("within", flush=True)
    print("outside")
    print("an error", file=sys.stderr)
    assert collector.take().lines == ("Env actor 2: within",)
    assert capsys.readouterr() == ("outside\n", "an error\n")


def test_a_progress_bar_is_one_line(collector: PrintCollector) -> None:
    with collector.collecting():
        for part in range(1_000):
            print(f"\r{part} of 1000", end="", flush=True)
        print()
    assert collector.take().lines == ("Env actor 2: 999 of 1000",)


def test_long_lines_are_cut(collector: PrintCollector) -> None:
    with collector.collecting():
        print("x" * 600)
        print("y" * 600, end="", flush=True)
    first, second = collector.take().lines
    for line in (first, second):
        assert len(line) == len("Env actor 2: ") + 500 and line.endswith("…")


def test_many_lines_are_counted(collector: PrintCollector) -> None:
    with collector.collecting():
        for number in range(30):
            print(number)
    lines, left_out = collector.take()
    assert (len(lines), lines[-1], left_out) == (20, "Env actor 2: 19", 10)


def test_more_than_the_pipe_holds_is_dropped_and_counted(
    collector: PrintCollector,
) -> None:
    began = time.monotonic()
    with collector.collecting():
        for _ in range(10_000):
            print("a line of forty characters, or nearly so")
    assert time.monotonic() - began < 10
    lines, left_out = collector.take()
    assert len(lines) == 20 and left_out + len(lines) == 10_000
    assert collector.take() == NOTHING


def test_a_forked_process_prints_too(collector: PrintCollector) -> None:
    """As those of `--vectorization async` are."""
    with collector.collecting():
        if (child := os.fork()) == 0:
            print("of a child", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        command = [sys.executable, "-c", "print('of a program')"]
        subprocess.run(command, check=True, stdout=sys.stdout)
        sys.stdout.buffer.write(b"bytes\n")
        sys.stdout.flush()
    assert collector.take().lines == (
        "Env actor 2: of a child",
        "Env actor 2: of a program",
        "Env actor 2: bytes",
    )


def test_a_forked_process_prints_above_a_live_table() -> None:
    """It would draw the table again, where it has been when the process began."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with Live("the table", console=console, auto_refresh=False):
        with relaying_forks():
            if (child := os.fork()) == 0:
                print("of a child", flush=True)
                os._exit(0)
        os.waitpid(child, 0)
        until = time.monotonic() + 10
        while "of a child\n" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert out.getvalue().count("of a child\n") == 1


def test_without_a_live_table_a_forked_process_keeps_its_output() -> None:
    before = sys.stdout
    with relaying_forks():
        assert sys.stdout is before


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_as_many_lines_are_shown_as_one_can_read() -> None:
    clock = Clock()
    limit = PrintLimit(clock)
    for number in range(12):
        limit.add(Printed(tuple(f"{number}-{each}" for each in range(5)), 0))
    *lines, last = limit.take()
    assert (len(lines), lines[0], lines[-1]) == (50, "0-0", "9-4")
    assert last == "Printed lines that are left out so far: 10"
    clock.now += 4
    limit.add(Printed(("more",), 1_000))
    assert limit.take() == []  # it was said less than 5 s ago
    clock.now += 1
    limit.add(Printed(("again",)))
    assert limit.take() == ["again", "Printed lines that are left out so far: 1,011"]
    clock.now += 5
    assert limit.take() == []
