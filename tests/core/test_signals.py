"""Ctrl-C and SIGTERM, from a batch system and from Python."""

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import xagents_ray
from xagents_ray.commands import train as training
from xagents_ray.commands import tune as tuning
from xagents_ray.core.signals import Signals

_SAVES = """
import time
from xagents_ray.core.signals import Signals
with Signals() as signals:
    signals.on_first = None
    print("ready", flush=True)
    while signals.received is None:
        time.sleep(0.01)
    time.sleep(0.2)
print("saved", signals.received)
"""


def test_timeout_signals_twice_and_means_once() -> None:
    done = subprocess.run(
        ["timeout", "2", sys.executable, "-c", _SAVES], capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("ready\nsaved 15\n", 124)


def test_a_terminal_that_is_closed_ends_a_run_in_order() -> None:
    for way, said in (("", "saved 1\n"), ("trap '' HUP; ", "")):  # as nohup has it
        command = f"{way}exec {sys.executable} -c '{_SAVES}'"
        with subprocess.Popen(
            ["sh", "-c", command],
            stdout=subprocess.PIPE,
            text=True,
            # These tests may run under nohup themselves.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGHUP)
            time.sleep(1)
            code = process.poll()
            process.kill()
            assert code == (0 if said else None)
            assert process.stdout.read() == said


def test_an_echo_is_not_a_second_signal() -> None:
    with Signals() as signals:
        signals.on_first = None
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM


def test_it_is_said_at_once_that_a_run_stops() -> None:
    """Once, and in a thread: what the signal interrupts may hold the screen's lock."""
    shown = []
    with Signals() as signals:
        signals.on_first = None
        signals.note = lambda text: shown.append((text, threading.get_ident()))
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        until = time.monotonic() + 10
        while not shown and time.monotonic() < until:
            time.sleep(0.01)
    ((text, thread),) = shown
    assert text == "Stopping..." and thread != threading.get_ident()


@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_python_hears_of_a_signal(
    command: str,
    is_early: bool,
    number: signal.Signals,
    expected: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a run has begun, and after it has saved itself: no loop continues."""
    runs = 0

    def run(*arguments: Any) -> SimpleNamespace:
        nonlocal runs
        runs += 1
        with Signals() as signals:
            if not is_early:
                signals.on_first = None
            os.kill(os.getpid(), number)
        return SimpleNamespace(signal=signals.received)

    monkeypatch.setattr(training, "train_with", run)
    monkeypatch.setattr(tuning, "tune_with", run)
    with pytest.raises(expected) as caught:
        for seed in (1, 2, 3):
            getattr(xagents_ray, command)("ppo", seed=seed)
    assert runs == 1
    if expected is SystemExit:
        assert caught.value.code == 143
