"""Keras models, and functions that make them, on Ray, in sweeps, and on resume."""

from pathlib import Path

from processes import python

OWN = Path(__file__).parents[2] / "support" / "script_networks.py"
_TRAIN = """
import numpy as np
import xagents_ray

settings = {"env": "CartPole-v1", "n_envs": 2, "n_steps": 16, "seed": 1, "quiet": True}
on_ray = {"address": "ADDRESS", "n_actors": 1}
adam = keras.optimizers.AdamW(1e-3)

def train(name, **own):
    given = {**settings, "name": name, "max_steps": 300, **own}
    return xagents_ray.train("ppo", **given).updates

print(train("known", model=known, optimizer=adam, lr_decay=True, local=True) > 0)
print(train("unknown", model=unknown, **on_ray) > 0)
print(train("features", feature_maker=features, local=True) > 0)
xagents_ray.train("ppo", resume="runs/ppo/CartPole-v1/unknown", max_steps=400,
                  model=unknown, local=True)
acted = [xagents_ray.load(f"runs/ppo/CartPole-v1/{name}").predict(np.ones((2, 4)))[0]
         for name in ("known", "features")]
print(np.shape(acted))
swept = xagents_ray.tune("ppo", model=known, trial_steps=300, gamma=[0.9, 0.99],
                         address="ADDRESS", local=True, **settings)
print(swept.counts)
train("failing", model=failing, **on_ray)
"""
_EXPECTED = """\
True
True
True
(2, 2)
{'complete': 1}
"""


def test_models_of_a_script_act_learn_and_resume(cluster: str, tmp_path: Path) -> None:
    """Those that NumPy can't compute bring TensorFlow to the env actors."""
    script = tmp_path / "script.py"
    script.write_text(OWN.read_text() + _TRAIN.replace("ADDRESS", cluster))
    done = python(str(script), cwd=tmp_path, timeout=300)
    assert done.stdout == _EXPECTED, done.stderr
    trace = done.stderr.split("RemoteTraceback: \n")[1].splitlines()
    assert trace[1].endswith('script.py", line 36, in failing')
    assert trace[-1].endswith("(script.py, line 36); fix it there.")
    assert (tmp_path / "runs/ppo/CartPole-v1/known/model.keras").is_file()
