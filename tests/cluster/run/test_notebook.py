"""The walkthrough runs as a notebook, and so do runs on Ray and interrupted ones."""

import re
from typing import Any

import nbformat
import pytest
from checkout import ROOT
from processes import python
from shorter import shortened

WALKTHROUGH = ROOT / "examples" / "walkthrough.ipynb"
ON_RAY = """
run = {{"env": Walk, "n_envs": 2, "max_steps": 2_000, "n_steps": 5}}
seen = []
run_on_ray = {{**run, "address": "{address}", "n_actors": 2}}
result = xagents_ray.train("a2c", **run_on_ray, callbacks=[seen.append])
assert len(seen) == result.updates and seen[-1].env_steps == result.env_steps
result
"""
INTERRUPTED = """
import os, signal

class Interrupt(xagents_ray.Callback):
    def on_rollout(self, ctx):
        if ctx.env_steps >= 100:
            os.kill(os.getpid(), signal.SIGINT)  # as the kernel's interrupt does

try:
    xagents_ray.train("a2c", **run, local=True, name="b", callbacks=[Interrupt()])
except KeyboardInterrupt:
    print(os.listdir("runs/a2c/Walk/b/checkpoints"))
"""
_EXECUTE = "from nbclient.cli import main; main()"


def code_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def of_kind(cells: list[Any], kind: str) -> list[Any]:
    """Return the outputs of a kind, of those that are shown as the value of a cell."""
    return [o for cell in cells for o in cell.outputs if kind in o.get("data", ())]


@pytest.mark.slow
def test_the_walkthrough_shows_runs_in_place(cluster: str) -> None:
    v4: Any = nbformat.v4
    notebook = nbformat.read(WALKTHROUGH, 4)
    for cell in code_of(notebook):
        cell.source, cell.outputs = shortened(cell.source, cluster), []
    more = ON_RAY.format(address=cluster), INTERRUPTED
    notebook.cells += map(v4.new_code_cell, more)
    nbformat.write(notebook, "a.ipynb")
    done = python("-c", _EXECUTE, "--inplace", "a.ipynb", timeout=300)
    assert done.returncode == 0, done.stderr
    local, *others, on_ray, interrupted = code_of(nbformat.read("a.ipynb", 4))
    for cell, steps in ((local, 600), (on_ray, 2000)):
        starts = re.compile("Ray cluster|Loading TensorFlow|Other users of")
        said = [o for o in cell.outputs if not starts.search(o.get("text", ""))]
        # Of Ray three lines: that it is joined, has no token, and an open folder.
        assert len(said) == len(cell.outputs) - (3 if cell is on_ray else 1)
        kinds = [output.output_type for output in said]
        assert kinds == ["stream", "display_data", "stream", "execute_result"]
        _, table, reason, result = said
        assert table.data["text/plain"].endswith(f"{steps}/{steps} 100%\n")
        assert "<td>Reached --max-steps</td>" in result.data["text/html"]
        assert len(result.data["text/plain"]) < 1_000  # without 400 episodes
        assert reason.text == "Reached --max-steps\n"
    assert local.outputs[0].text == "Loading TensorFlow...\n"
    assert "1 env actor," in local.outputs[1].text
    assert on_ray.outputs[0].text.startswith("Joining the Ray cluster at ")
    assert "2 env actors," in on_ray.outputs[1].text
    kept = r"\['step-0000000001\d\d'\]\n"
    assert re.fullmatch(kept, interrupted.outputs[-1].text)
    assert len(of_kind(others, "image/png")) == 3
    assert len(of_kind(others, "image/jpeg")) == 1


def test_the_walkthrough_is_kept_with_its_outputs() -> None:
    assert WALKTHROUGH.stat().st_size < 500_000
    cells = code_of(nbformat.read(WALKTHROUGH, 4))
    assert [c.execution_count for c in cells] == [*range(1, len(cells) + 1)]
    assert len(of_kind(cells, "image/png")) == 3
    shown = [output.output_type for cell in cells for output in cell.outputs]
    assert "error" not in shown
    assert "Reached --max-steps" in cells[0].outputs[-2].text
