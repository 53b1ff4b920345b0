"""A token that others can read is said to be that."""

from pathlib import Path

import pytest

from xagents_ray.cluster.ray import authentication


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o600, False), (0o640, True), (0o644, True), (0o666, True)]
)
@pytest.mark.parametrize("is_named", [True, False])
def test_tokens_that_others_can_read(
    mode: int, is_open: bool, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert authentication.exposed_token() == ""
    path = Path.cwd() / ("own" if is_named else ".ray/auth_token")
    path.parent.mkdir(exist_ok=True)
    path.write_text("secret")
    path.chmod(mode)
    if is_named:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    said = authentication.exposed_token()
    assert bool(said) == is_open
    assert not is_open or said.endswith(f"run code on all nodes: chmod 600 {path}.")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "given")
    assert authentication.exposed_token() == ""
