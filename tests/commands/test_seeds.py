"""Runs with several seeds as a user makes them."""

import json
from pathlib import Path

import forked
import pytest

import xagents_ray
from xagents_ray.core.errors import UserError

_TRAIN = """
import json, os, xagents_ray
from examples import complaints, examples_of

class Unlucky(xagents_ray.Callback):
    def on_rollout(self, ctx):
        is_unlucky = ctx.directory.name == "seed-2" and not os.path.exists("fixed")
        if is_unlucky and ctx.env_steps > 300:
            raise ValueError("unlucky")

run = {"env": "CartPole-v1", "n_envs": 4, "n_steps": 64, "local": True, "quiet": True}
run |= {"max_steps": 1_000, "name": "a", "jit": "off"}
found = []
for _ in range(2):
    result = xagents_ray.train("ppo", seeds=[2, 3], callbacks=[Unlucky()], **run)
    means = {seed: each.mean_reward for seed, each in result.results.items()}
    found.append([means, result.failures, result.mean])
    open("fixed", "w").close()
alone = xagents_ray.train("ppo", seed=3, **run)
examples = [
    examples_of(getattr(xagents_ray, name), name)[name]
    for name in ("SeedsResult", "plot_seeds")
]
said = [complaints(each, {"xagents_ray": xagents_ray}) for each in examples]
print(json.dumps([*found, alone.mean_reward, said]))
"""


def test_a_run_that_fails_is_resumed_by_the_same_command() -> None:
    done = forked.run(["-c", _TRAIN], 200)
    assert done.returncode == 0, done.stderr
    first, second, alone, said = json.loads(done.stdout)
    assert [*first[0]] == ["3"] and [*second[0]] == ["2", "3"]
    assert first[0]["3"] == second[0]["3"] == alone  # as with --seed 3 alone
    assert said == ["", ""]
    message = first[1]["2"]
    assert "Unlucky.on_rollout: ValueError: unlucky (<string>, line 9)" in message
    assert second[1] == {} and second[2] == sum(second[0].values()) / 2
    above = Path("runs/seeds/a")
    assert {path.name for path in above.iterdir()} == {
        "ppo",
        "seed-2.log",
        "seed-3.log",
        "seeds.png",
        "summary.json",
    }
    starts = above / "ppo" / "CartPole-v1" / "seed-2" / "run.json"
    assert len(json.loads(starts.read_text())) == 2
    assert json.loads((above / "summary.json").read_text())["mean"] == second[2]
    figure = xagents_ray.plot_seeds(above)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["interquartile mean of 2 seeds"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 1}, "--seed can't be given with --seeds"),
        ({"resume": "last"}, "same --name resumes all of its runs"),
        ({"checkpoints": "a.npz"}, "every run writes its own"),
        ({"env": "CartPolee-v1"}, "did you mean CartPole-v1"),
        ({"seeds": 3}, "--seeds takes one value or more"),
        ({"seeds": []}, "--seeds takes one value or more"),
        ({"seeds": [-1]}, "--seeds must be"),
    ],
)
def test_what_several_seeds_refuse(given: dict, message: str) -> None:
    settings = {"env": "CartPole-v1", "max_steps": 9, "local": True, "seeds": [1, 2]}
    with pytest.raises(UserError, match=message):
        xagents_ray.train("ppo", **{**settings, **given})
    assert not Path("runs").exists()
