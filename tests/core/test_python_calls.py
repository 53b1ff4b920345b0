"""Messages for callers from Python."""

import signal

import pytest

from xagents_ray.core.errors import Broken, Diverged, UserError
from xagents_ray.core.python_calls import as_arguments, python_call


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("--lr must be > 0, got -1.0.", "lr must be > 0, got -1.0."),
        ("--n-actors 2 is more than --n-envs 1:", "n_actors=2 is more than n_envs=1:"),
        ("as in --env CartPole-v1.", 'as in env="CartPole-v1".'),
        ("as in --lr 1e-5 1e-2, and", "as in lr=[1e-5, 1e-2], and"),
        ("--run-dir s3://a/b: URLs", 'run_dir="s3://a/b": URLs'),
        ("--name 'a/b' can't", "name='a/b' can't"),
        ("--no-action-scaling is for", "action_scaling=False is for"),
        ("drop it or --local", "drop it or local"),
        ("fix it; --traceback shows the traceback.", "fix it."),
        ("a--b and -o and ---", "a--b and -o and ---"),
    ],
)
def test_flags_become_arguments(flags: str, arguments: str) -> None:
    assert as_arguments(flags) == arguments


@pytest.mark.parametrize("kind", [UserError, Broken, Diverged])
def test_errors_name_arguments(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^raise max_actor_restarts$"), python_call():
        raise kind("raise --max-actor-restarts")


def test_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), python_call():
        raise SystemExit(128 + signal.SIGINT)
    with pytest.raises(SystemExit), python_call():
        raise SystemExit(128 + signal.SIGTERM)
