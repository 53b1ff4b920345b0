"""The speed of many env actors, predicted from measured costs."""

import json
import statistics

import pytest
from checkout import ROOT
from click.testing import CliRunner

from benchmarks.__main__ import cli
from benchmarks.capacity import Costs, Shape, predict

# Those that docs/scaling.md names, and env steps of a rollout.
MEASURED = {
    "ppo": (Costs(0.0415, 0.0005, 0.318, 7.2e-6, 0.00055, 50, 5e4), 128),
    "dqn": (Costs(0.0412, 0.0005, 0.0195, 21.5e-6, 0.00055, 50, 5e4), 16),
}


@pytest.mark.parametrize("agent", MEASURED)
@pytest.mark.parametrize("actors", [8, 32])
def test_recorded_speeds_are_predicted(agent: str, actors: int) -> None:
    path = ROOT / "benchmarks" / "results" / "scaling.json"
    costs, rows = MEASURED[agent]
    measured = statistics.mean(
        run["steps_per_second"]
        for run in json.loads(path.read_text(encoding="utf-8"))
        if (run["agent"], run["n_actors"]) == (agent, actors)
    )
    predicted = min(predict(costs, Shape(actors, 4, rows)).values())
    assert predicted == pytest.approx(measured, rel=0.05)


def test_each_part_has_a_speed_of_its_own() -> None:
    costs = Costs(0.04, 0.001, 0.1, 1e-5, 0.001, 1_000, 1e6)
    found = predict(costs, Shape(100, 4, 16, nodes=2, cores=2, gigabits=1))
    assert found == pytest.approx(
        {
            "environments": 10_000,  # 100 * 4 / 0.04
            "cores": 16_000,  # 100 * 4 / (100 * 0.001 / (2 * 2))
            "driver": 64_000,  # 4 * 16 / 0.001
            "learner": 6_400 / (0.1 + 6_400 * 1e-5),
            "link": 6_400 / ((6_400 * 1_000 + 2 * 1e6) * 8 / 1e9),
        }
    )
    assert "link" not in predict(costs, Shape(100, 4, 16))  # everything is on one node


def test_the_slowest_part_is_named() -> None:
    words = "capacity --row-ms 40 --phase-ms 100 --step-us 100 --actors 1 --actors 1000"
    done = CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    first, last = done.output.splitlines()[-2:]
    assert first == "| 1 | 100 | environments | 100% |"
    assert last == "| 1000 | 9,981 | learner | 10% |"


@pytest.mark.parametrize(
    "words",
    ["", "--row-ms 0", "--row-ms -1", "--row-ms 1 --envs 0", "--row-ms 1 --step-us -1"],
)
def test_costs_that_no_run_has_are_refused(words: str) -> None:
    done = CliRunner().invoke(cli, ["capacity", *words.split()])
    assert done.exit_code == 2
    assert "Error: " in done.output
