"""Starts Ray for a sweep, and shuts it down afterwards."""

import importlib
import os
from collections.abc import Sequence

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.cluster.ray import connection
from xagents_ray.cluster.run.preflight import store_bytes
from xagents_ray.core.errors import Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.run.learner_access import export_parts
from xagents_ray.tuning.plan import Plan
from xagents_ray.tuning.study import Study
from xagents_ray.tuning.sweep_display import SweepDisplay

# Without these, Tune prints a table, writes results and TensorBoard events of its own,
# handles Ctrl-C, and changes the working directory.
_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}


def run_trials(
    plan: Plan,
    study: Study,
    runs: Sequence[RunSpec],
    display: SweepDisplay,
    signals: Signals,
) -> None:
    """Run trials until the study has enough, or a signal is received.

    Args:
        plan: the plan of the sweep.
        study: the study that chooses trials and stores their results.
        runs: examples of trials, each of which must fit on the cluster.
        display: the display that shows the trials.
        signals: the signals that end the sweep.
    Raises:
        UserError: the cluster can't be joined or lacks resources for a trial, or what
            the networks are made of can't be sent to trials.
        Broken: the study's database failed.
    """
    signals.on_first = None  # polled instead, because Ray must not be interrupted
    # Files of networks don't vary.
    definitions = export_parts(runs[0], runs[0].config.algorithm.objects)
    bytes_ = max(0 if run.config.placement.local else store_bytes(run) for run in runs)
    os.environ.update(_ENVIRONMENT)
    logs, bytes_ = plan.config.non_silent, bytes_ * plan.config.n_jobs
    try:
        ray = connection.start_ray(
            plan.ray, bytes_, signals, display.note, logs, requires_ray=True
        )
    except Stopped:
        return
    try:
        for note in connection.ray_notes():
            display.note(note)
        # Imported late, because it imports Ray, which must be configured before.
        module = importlib.import_module("xagents_ray.cluster.tune.controller")
        sweep = module.SweepController(ray, plan, study, display, signals, definitions)
        for run in runs:
            sweep.claims(run.config)
        sweep.run()
    except Stopped:
        pass  # while it was looked up what is free
    finally:
        connection.leave_ray(ray)
