"""Files carry the number of their format, and older ones are brought to the newest."""

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import WeightsFile
from xagents_ray.storage import migrations
from xagents_ray.storage.checkpoints import Checkpoint, all_checkpoints, load_checkpoint
from xagents_ray.storage.migrations import Migration
from xagents_ray.storage.run_directory import RunDirectory, _digest
from xagents_ray.storage.sealed import read_manifest
from xagents_ray.storage.weights import decode_npz, encode_npz

RUN = Path(__file__).parents[1] / "data/format-1/trained/a2c/CartPole-v1/before"
WEIGHTS = RUN.parents[3] / "weights/a2c-policy.npz"
UPGRADE = "has format 3, and this version of xagents-ray reads formats up to 2: upgrade"


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format after the first one, in which everything has another name."""

    def renamed(values: dict[str, Any]) -> dict[str, Any]:
        return {f"new-{name}": value for name, value in values.items()}

    monkeypatch.setattr(
        migrations,
        "MIGRATIONS",
        [
            Migration(
                settings=lambda agent, values: {**values, "gamma": f"{agent}'s"},
                checkpoint=lambda arrays, facts: (renamed(arrays), renamed(facts)),
                weights=renamed,
                summary=renamed,
            )
        ],
    )


def checkpoint_of(run: Path) -> Checkpoint:
    return load_checkpoint(all_checkpoints(run / "checkpoints")[0])


def weights_of(data: bytes) -> WeightsFile:
    return WeightsFile("w.npz", {"": data})


def test_files_of_the_first_format_are_migrated(second: None) -> None:
    agent, values = RunDirectory(RUN).settings()
    assert (agent, values["gamma"]) == ("a2c", "a2c's")
    found = checkpoint_of(RUN)
    assert all(name.startswith("new-") for name in (*found.arrays, *found.facts))
    arrays = decode_npz(weights_of(WEIGHTS.read_bytes()))
    assert arrays and all(name.startswith("new-") for name in arrays)
    summary = RunDirectory(RUN).summary()
    assert summary and all(name.startswith("new-") for name in summary)


def test_steps_that_wait_for_a_batch_have_their_name() -> None:
    run = RUN.parents[2] / "dqn/CartPole-v1/before"
    saved = all_checkpoints(run / "checkpoints")[0]
    before = json.loads((saved / "facts.json").read_text())
    facts = load_checkpoint(saved).facts
    renamed = {"owed": "pending_steps"}
    assert facts == {renamed.get(name, name): fact for name, fact in before.items()}
    assert facts["pending_steps"] == 1


def test_means_of_earlier_gsde_are_not_bounded() -> None:
    for frequency, bound in ((4, 0.0), (None, 2.0)):
        values: dict[str, Any] = {"sde_frequency": frequency}
        for migration in migrations.migrations_from(2, "config.yaml"):
            values = migration.settings("sac", values)
        assert find_algorithm("sac").config.of(values).clip_mean == bound


def test_targets_of_several_steps_keep_what_they_sum() -> None:
    given: dict[str, Any] = {"n_step": 3}
    for agent, more, expected in (
        ("sac", {}, False),
        ("sac", {"n_step_entropy": True}, True),
        ("sac", {"n_step": 1}, None),
        ("sac", {"n_step": 1, "n_step_entropy": False}, None),
        ("td3", {}, None),
    ):
        values = {**given, **more}
        for migration in migrations.migrations_from(5, "config.yaml"):
            values = migration.settings(agent, values)
        assert values.get("n_step_entropy") is expected
        find_algorithm(agent).config.of(values)


@pytest.mark.parametrize(
    ("run", "is_gaussian"),
    [
        ("a2c/CartPole-v1", True),
        ("ppo/Pendulum-v1", True),
        ("trpo/Pendulum-v1", True),
        ("dqn/CartPole-v1", False),
        ("sac/Pendulum-v1", False),
    ],
)
def test_earlier_gaussian_policies_act_unscaled(run: str, is_gaussian: bool) -> None:
    agent, values = RunDirectory(RUN.parents[2] / run / "before").settings()
    assert values.get("action_scaling", True) is not is_gaussian
    find_algorithm(agent).config.of(values)
    assert ("action_scaling" in values) == is_gaussian


def test_statistics_become_float64() -> None:
    trained = RUN.parents[2] / "ppo/Pendulum-v1"
    saved = all_checkpoints(next(trained.iterdir()) / "checkpoints")[0]
    parts = "mean", "size", "variance"
    observation = [f"observation/{part}" for part in parts]
    with np.load(saved / "arrays.npz") as file:
        before = dict(file)
    arrays = load_checkpoint(saved).arrays
    found = {name for name, array in arrays.items() if array.dtype == np.float64}
    assert found == {
        *(f"policy/{name}" for name in observation),
        *(f"return/{part}" for part in parts),
    }
    assert all(before[name].dtype == np.float32 for name in found)
    assert before.keys() == arrays.keys()
    assert all((array == before[name]).all() for name, array in arrays.items())

    path = RUN.parents[3] / "weights/ppo-policy.npz"
    weights = decode_npz(weights_of(path.read_bytes()))
    wide = [name for name, array in weights.items() if array.dtype == np.float64]
    assert sorted(wide) == observation


def test_earlier_runs_of_sac_keep_their_policy_delay() -> None:
    delays = [
        RunDirectory(RUN.parents[2] / f"{agent}/Pendulum-v1/before").settings()[1]
        for agent in ("sac", "td3", "ddpg")
    ]
    assert [values.get("policy_delay") for values in delays] == [1, 2, None]


def test_files_of_the_newest_format_are_left_alone(second: None) -> None:
    data = encode_npz({"kernel": np.ones(2, np.float32)})[""]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.comment == b"xagents-ray format 2"
    assert [*decode_npz(weights_of(data))] == ["kernel"]


def test_a_summary_carries_its_format(second: None, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.finish({"reason": "over"})
    path = tmp_path / "summary.json"
    assert json.loads(path.read_text()) == {"format": 2, "reason": "over"}
    assert run.summary() == {"reason": "over"}
    path.write_text(json.dumps({"format": 3, "reason": "over"}))
    with pytest.raises(UserError, match=UPGRADE):
        run.summary()
    for number in (0, "2", None, True):
        path.write_text(json.dumps({"format": number, "reason": "over"}))
        assert run.summary() == {}  # damaged, like a file that isn't JSON


def written(folder: Path, number: Any) -> Path:
    """Return a copy of a run whose files have another number."""
    run = shutil.copytree(RUN, folder / "run")
    _, _, text = (run / "config.yaml").read_text(encoding="utf-8").partition("\n")
    data = yaml.safe_dump({"format": number, **yaml.safe_load(text)}).encode()
    (run / "config.yaml").write_bytes(_digest(data) + data)
    saved = all_checkpoints(run / "checkpoints")[0]
    manifest = {**read_manifest(saved), "format": number}
    (saved / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return run


def test_files_of_a_newer_version_ask_for_an_upgrade(
    second: None, tmp_path: Path
) -> None:
    run = written(tmp_path, 3)
    with pytest.raises(UserError, match=UPGRADE):
        RunDirectory(run).settings()
    with pytest.raises(UserError, match=UPGRADE):
        checkpoint_of(run)
    out = io.BytesIO(WEIGHTS.read_bytes())
    with zipfile.ZipFile(out, "a") as archive:
        archive.comment = b"xagents-ray format 3"
    with pytest.raises(UserError, match=UPGRADE):
        decode_npz(weights_of(out.getvalue()))


@pytest.mark.parametrize("number", [0, -1, "2", None, 1.0, True])
def test_other_numbers_are_damage(number: Any, tmp_path: Path) -> None:
    run = written(tmp_path, number)
    with pytest.raises(UserError, match="edited or damaged"):
        RunDirectory(run).settings()
    with pytest.raises(UserError, match="its format is"):
        checkpoint_of(run)


@pytest.mark.parametrize("comment", [b"xagents-ray format 0", b"format 1", b"\xff"])
def test_another_comment_is_damage(comment: bytes) -> None:
    out = io.BytesIO(WEIGHTS.read_bytes())
    with zipfile.ZipFile(out, "a") as archive:
        archive.comment = comment
    with pytest.raises(UserError, match="a damaged one"):
        decode_npz(weights_of(out.getvalue()))
