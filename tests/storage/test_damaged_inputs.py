"""Damaged network files and settings: one sentence, never another exception."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.networks import layout
from xagents_ray.networks.reading import read_layout
from xagents_ray.settings.config import Config
from xagents_ray.storage.run_directory import RunDirectory

CFG = Path(layout.__file__).with_name("actor-critic-image.cfg").read_bytes()
CHANGES = st.lists(
    st.tuples(st.integers(0, 5000), st.binary(max_size=4), st.integers(0, 40)),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    """Return bytes with some replaced, put in or cut out."""
    for at, put, cut in changes:
        at %= len(data) + 1
        data = data[:at] + put + data[at + cut :]
    return data


CASES = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@CASES
@given(st.one_of(st.binary(max_size=200), CHANGES.map(lambda c: damaged(CFG, c))))
def test_network_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.cfg"
    path.write_bytes(data)
    try:
        read_layout(path, (84, 84, 4), [6, 1], 1 / 255)
    except UserError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)


def begun(tmp_path: Path) -> tuple[RunDirectory, Config]:
    given = {"env": "CartPole-v1", "max_steps": 5, "history_checkpoint": "h.parquet"}
    config = Config.of(find_algorithm("ppo").config, given)
    directory = RunDirectory(tmp_path)
    directory.begin("ppo", 3, config.groups(), {})
    return directory, config


def test_settings_come_back(tmp_path: Path) -> None:
    directory, config = begun(tmp_path)
    assert directory.settings() == ("ppo", config.values())
    directory.begin("ppo", 3, config.groups(), {})
    assert [start["seed"] for start in directory.starts()] == [3, 3]


@CASES
@given(CHANGES)
def test_settings(tmp_path: Path, changes: list[tuple[int, bytes, int]]) -> None:
    directory, _ = begun(tmp_path)
    path = tmp_path / "config.yaml"
    whole = path.read_bytes()
    data = damaged(whole, changes)
    path.write_bytes(data)
    if data == whole:
        directory.settings()
        return
    with pytest.raises(UserError, match=r"config\.yaml was edited or damaged") as error:
        directory.settings()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: &a [1]\nb: [*a, *a]",
        "agent: ppo",
        "- 1",
        "",
        "2001-99-99",
        "!!python/object/apply:os.system [true]",
        "agent: ppo\nenv: 3\ntraining: {}\nrun: {}\ndisplay: {}\nplacement: {}\n"
        "algorithm: {}",
    ],
)
def test_sealed_settings_that_are_none(text: str, tmp_path: Path) -> None:
    """Even with the right seal."""
    from xagents_ray.storage.run_directory import _digest

    data = text.encode()
    (tmp_path / "config.yaml").write_bytes(_digest(data) + data)
    with pytest.raises(UserError, match="edited or damaged"):
        RunDirectory(tmp_path).settings()
