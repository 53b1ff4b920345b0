"""Files of format 1, which commit 3442e51 wrote, resume, load and act as before.

`tests/data/format-1/README.md` says how they were made. Those of `tests/data/earlier`
are of the commit before there were rooms.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xagents_ray
from xagents_ray.algorithms.definition import ALGORITHMS
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.episodes import evaluate_with
from xagents_ray.core.trajectory import Array
from xagents_ray.policy import loading
from xagents_ray.run import weights_formats as formats
from xagents_ray.storage.checkpoints import load_checkpoint
from xagents_ray.storage.history import read_history
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.storage.weights import read_file
from xagents_ray.watch.result import from_summary

FILES = Path(__file__).parents[1] / "data" / "format-1"
RUNS = {run.parts[-3]: run for run in sorted(FILES.glob("trained/*/*/*"))}
EARLIER = FILES.parent / "earlier"
EARLIER_RUNS = {run.parts[-3]: run for run in sorted(EARLIER.glob("trained/*/*/*"))}
ACTIONS = json.loads((FILES / "actions.json").read_text())
agents = pytest.mark.parametrize("agent", RUNS)
# The state of a learner has the same parts for the others.
_QUICK = ("acer", "dqn", "ppo", "sac")


def settings_of(agent: str) -> dict[str, Any]:
    """Return what weights files need to be given besides themselves."""
    run = RUNS[agent]
    networks = [*run.glob("*.cfg"), *run.glob("*.keras")]
    normalizes = {"normalize_observations": True} if agent in ("ppo", "sac") else {}
    unscaled = {"action_scaling": False} if agent in ("ppo", "trpo") else {}
    return {
        "env": run.parts[-2],
        **{path.stem: str(path) for path in networks},
        **normalizes,
        **unscaled,
    }


def arrays_of(path: Path | str) -> dict[str, Array]:
    with np.load(path) as file:
        return dict(file)


def assert_acts_as_before(policy: xagents_ray.Policy, agent: str) -> None:
    shape = 8, *policy.observation_space.shape
    observations = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32)
    actions = policy.act(observations.reshape(shape))
    np.testing.assert_allclose(actions, ACTIONS[agent], atol=1e-5)


def test_there_are_files_of_each_algorithm() -> None:
    assert RUNS.keys() == ACTIONS.keys() == ALGORITHMS.keys()
    assert [*EARLIER_RUNS] == ["a2c", "acer", "ddpg", "dqn", "ppo", "td3", "trpo"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run,
            id=f"{run.parts[-5]}-{agent}",
            marks=[] if agent in _QUICK else pytest.mark.slow,
        )
        for runs in (RUNS, EARLIER_RUNS)
        for agent, run in runs.items()
    ],
)
def test_a_run_is_resumed(run: Path, tmp_path: Path) -> None:
    mine, agent = shutil.copytree(run, tmp_path / "run"), run.parts[-3]
    saved = max((mine / "checkpoints").iterdir())
    before = json.loads((saved / "facts.json").read_text())["progress"]
    old = load_checkpoint(saved).arrays
    steps, rows = before["env_steps"], read_history(mine / "history.parquet")
    elsewhere = RunDirectory(mine).settings()[1]["checkpoints"]
    result = xagents_ray.train(
        agent,
        resume=str(mine),
        checkpoints=elsewhere,
        max_steps=steps + 60,
        quiet=True,
        jit="off",
    )
    assert isinstance(result, xagents_ray.Result)
    assert result.env_steps >= steps + 60 and result.updates > before["updates"]
    after = read_history(mine / "history.parquet")
    for name in ("step", "episode_reward", "best_reward"):
        np.testing.assert_array_equal(after[name][: len(rows)], rows[name])
    assert len(rows) and (after["step"][len(rows) :] > steps).all()
    newest = arrays_of(max((mine / "checkpoints").iterdir()) / "arrays.npz")
    forms = [{k: (x.shape, x.dtype) for k, x in each.items()} for each in (old, newest)]
    assert forms[0] == forms[1]
    assert any((old[x] != newest[x]).any() for x in old if "kernel" in x)


def test_a_summary_has_failures_by_their_earlier_name(tmp_path: Path) -> None:
    kept = json.loads((RUNS["a2c"] / "summary.json").read_text())
    assert "format" not in kept
    earlier = {**kept, "losses": {"env actors": 2}}
    (tmp_path / "summary.json").write_text(json.dumps(earlier))
    result = from_summary(RunDirectory(tmp_path).summary())
    assert result is not None and result.failures == {"env actors": 2}


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(each, marks=[] if each in _QUICK else pytest.mark.slow)
        for each in RUNS
    ],
)
def test_weights_start_a_run(agent: str) -> None:
    given = sorted(FILES.glob(f"weights/{agent}-*.npz"))
    algorithm = find_algorithm(agent)
    names = [model.name for model in algorithm.models]
    given.sort(key=lambda path: names.index(path.stem.partition("-")[2]))
    written = [path.name for path in given]
    few = {"n_steps": 8} if algorithm.on_policy else {}
    few |= {"max_kl": 1e-7} if agent == "trpo" else {}  # hardly moves the actor
    xagents_ray.train(
        agent,
        **settings_of(agent),
        **few,
        weights=list(map(str, given)),
        checkpoints=written,
        max_steps=1,
        local=True,
        quiet=True,
    )
    for path, mine in zip(given, written, strict=True):
        first, last = arrays_of(path), arrays_of(mine)
        for name in (name for name in first if "kernel" in name):
            np.testing.assert_allclose(last[name], first[name], atol=0.05)


@agents
def test_policies_act_as_before(agent: str) -> None:
    assert_acts_as_before(xagents_ray.load(RUNS[agent], which="last"), agent)
    path = FILES / "policies" / f"{agent}.npz"
    settings = settings_of(agent)
    settings.pop("critic_model", None)
    policy = xagents_ray.load(path, agent=agent, **settings)
    assert_acts_as_before(policy, agent)


def test_weights_without_a_record_of_scaling_name_the_flag() -> None:
    settings = settings_of("ppo")
    del settings["action_scaling"]
    path = FILES / "policies" / "ppo.npz"
    policy = xagents_ray.load(path, agent="ppo", **settings)
    assert any("give --no-action-scaling" in note for note in policy.notes)


@agents
@pytest.mark.parametrize("ending", [".tf", ".weights.h5"])
def test_policies_are_the_same_in_each_format(agent: str, ending: str) -> None:
    path = FILES / "policies" / f"{agent}{ending}"
    run = loading.load_policy(
        find_algorithm(agent), {"run": str(RUNS[agent]), "which": "last"}
    ).run
    expected = arrays_of(path.parent / f"{agent}.npz")
    extras = {k: x.shape for k, x in expected.items() if k not in run.layout.shapes}
    arrays, notes = formats.decode_weights(read_file(str(path)), run.layout, extras)
    assert arrays.keys() == expected.keys() and not notes
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize(
    ("agent", "files"),
    [("dqn", ["dqn.tf"]), ("trpo", ["trpo-actor.npz", "trpo-critic.npz"])],
)
def test_earlier_weights_are_evaluated(agent: str, files: list[str]) -> None:
    run, said = EARLIER_RUNS[agent], list[str]()
    given = {
        "env": run.parts[-2],
        "weights": tuple(str(EARLIER / name) for name in files),
        **{path.stem: str(path) for path in run.glob("*.cfg")},
    }
    evaluate_with(
        find_algorithm(agent),
        {**given, "episodes": 1, "seed": 1, "json": True},
        said.append,
    )
    assert len(json.loads(said[-1])["returns"]) == 1
