"""The results of a sweep: the best settings, as a preset too, and pictures."""

import importlib
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xagents_ray.storage.files import replace_bytes
from xagents_ray.tuning.plan import (
    Plan,
    command,
    preset,
)
from xagents_ray.tuning.study import Study

_PRESET = "best.yaml"
_PICTURES = {
    "optimization_history": "history.png",
    "param_importances": "importances.png",
    "parallel_coordinate": "parallel.png",
}
_FEWEST = 2
"""Complete trials that a picture of importances needs."""


def write(plan: Plan, study: Study, note: Callable[[str], None]) -> None:
    """Write the results of a sweep to its directory, and print them.

    Args:
        plan: of the sweep.
        study: of the sweep.
        note: prints a line.
    """
    counts = study.counts()
    states = ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))
    note(f"Study {plan.study} in {study.shown}: {states or 'no trials'}")
    best = study.best()
    if best is None:
        return
    settings, agent = best.user_attrs["settings"], plan.algorithm.name
    shown = {name: value for name, value in settings.items() if name != "quiet"}
    if plan.ray.address is not None and not settings.get("local"):
        shown["address"] = plan.ray.address
    note(f"Best: mean reward {best.value:.2f} of trial {best.number}; train with it:")
    note(f"  {shlex.join(command(plan.algorithm, shown))}")
    expected = f"{best.value:.2f} after {plan.config.trial_steps} env steps"
    source = f"trial {best.number} of {plan.study}"
    text = preset(plan.algorithm, settings, expected, source)
    path = plan.directory / _PRESET
    try:
        replace_bytes(path, text.encode())
    except OSError as error:
        note(f"{path} can't be written ({error.strerror}): copy the command.")
        return
    note(f"  xagents-ray train {agent} --preset {path}")
    if not study.varies or counts["complete"] < _FEWEST:
        note(f"Pictures need {_FEWEST} complete trials, and something that varies.")
        return
    for name, file in _PICTURES.items():
        path = plan.directory / file
        reason = _draw(study, name, path)
        note(f"{file} is not drawn: {reason}" if reason else f"  {path}")


def _draw(study: Study, name: str, path: Path) -> str:
    """Draw a picture of a study; return why it could not be, or ''."""
    pictures = importlib.import_module("optuna.visualization.matplotlib")
    pyplot = importlib.import_module("matplotlib.pyplot")
    more: dict[str, Any] = {}
    if name == "param_importances":
        # The other evaluators need scikit-learn.
        importance = importlib.import_module("optuna.importance")
        more["evaluator"] = importance.PedAnovaImportanceEvaluator()
    # Optuna sets a style, which would stay with all that this process draws later.
    with warnings.catch_warnings(), pyplot.rc_context():
        warnings.simplefilter("ignore")  # each of them is called experimental
        try:
            axes = getattr(pictures, f"plot_{name}")(study.whole, **more)
            figure = axes.figure if hasattr(axes, "figure") else axes.flat[0].figure
            figure.set_size_inches(10, 6)
            figure.savefig(path, dpi=100, bbox_inches="tight")
            pyplot.close(figure)
        except (ValueError, RuntimeError, OSError) as error:
            return str(error).rstrip(".")
    return ""
