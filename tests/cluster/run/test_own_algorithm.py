"""What a script registers is trained on Ray and tuned as it is with --local."""

from pathlib import Path

from processes import python

OWN = Path(__file__).parents[2] / "support" / "script_algorithm.py"
NETWORK = "[dense-0]\nunits=8\n[scale-0]\n[dense-1]\noutput=1\n"
_TRAIN = """
settings = {"env": "CartPole-v1", "model": "own.cfg", "quiet": True, "n_envs": 2}
settings |= {"buffer_max_size": 500, "buffer_initial_size": 50, "seed": 1}
for where in ({"local": True}, {"address": "ADDRESS", "n_actors": 1}):
    for file in SEEN.iterdir():
        file.unlink()
    made = xagents_ray.train("own-dqn", max_steps=500, name=f"{len(where)}",
                             checkpoints=["w.npz"], **settings, **where)
    print(sorted(x.name for x in SEEN.iterdir()), made.env_steps, made.failures)
print(sorted(np.load("w.npz").files))
swept = xagents_ray.tune("own-dqn", trial_steps=300, lr=[1e-4, 1e-3], local=True,
                         **settings, address="ADDRESS")
print(swept.counts)
"""

_EXPECTED = """\
['learner', 'policy', 'replay'] 522 {}
['learner', 'policy', 'replay'] 522 {}
['dense-0/bias', 'dense-0/kernel', 'dense-1/bias', 'dense-1/kernel', 'scale-0/factors']
{'complete': 1}
"""


def test_what_a_script_registers_learns_acts_and_is_tuned(
    cluster: str, tmp_path: Path
) -> None:
    """Its learner, policy, replay and layer travel to processes without them."""
    (tmp_path / "own.cfg").write_text(NETWORK)
    (tmp_path / "seen").mkdir()
    script = tmp_path / "script.py"
    script.write_text(OWN.read_text() + _TRAIN.replace("ADDRESS", cluster))
    done = python(str(script), cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == _EXPECTED
