"""Python in processes of its own."""

import subprocess
import sys
from typing import Any


def python(*words: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run Python as `subprocess.run` does, with its output captured as text."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, **settings)


def start(*words: str, **settings: Any) -> Any:
    """Start Python as `subprocess.Popen` does, with its output in a pipe of text."""
    settings = {"stdout": subprocess.PIPE, "text": True, **settings}
    return subprocess.Popen([sys.executable, *words], **settings)
