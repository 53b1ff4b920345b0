"""The asynchronous example runs on Ray."""

import shutil
from pathlib import Path

import forked

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_demo_of_drlbox_runs(cluster: str) -> None:
    for path in EXAMPLES.glob("cartpole_a3c.*"):
        shutil.copy(path, path.name)
    code = Path("cartpole_a3c.py").read_text(encoding="utf-8")
    on_cluster = code.replace('"a3c",', f'"a3c", address="{cluster}",')
    assert on_cluster != code
    Path("cartpole_a3c.py").write_text(on_cluster, encoding="utf-8")
    done = forked.run(["-m", "cartpole_a3c"], 120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 env actors" in done.stdout
    assert "episodes, mean reward" in done.stdout
