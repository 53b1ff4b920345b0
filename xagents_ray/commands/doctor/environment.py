"""What `xagents-ray doctor` finds about the environment, and about acting in it."""

import time

from xagents_ray.actors.diagnosis import Acted, Began, EnvsMade, SteppedAtRandom
from xagents_ray.actors.envs.make import notes
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor.row import Row, error, failed, hangs, span, warning
from xagents_ray.core.errors import UserError, counted
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.timed_subprocess import Failure, TimedSubprocess
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config

_MAKE_SECONDS = 8.0
_SLOW_RATE = 100
"""Env steps per second; one core makes thousands in an Atari game."""


def making(config: Config, probe: TimedSubprocess) -> tuple[Row, EnvSpec | None]:
    """Return whether the probe can make an environment, and its spec."""
    env = f"--env {config.env.env}"
    try:
        found = probe.result(time.monotonic() + _MAKE_SECONDS)
    except TimeoutError:
        return hangs("environment", env, "be made", _MAKE_SECONDS), None
    if isinstance(found, Failure):
        return failed("environment", "can't be made", env, found), None
    made = "one made, in a process of its own"
    for note in notes(config.env):
        return warning("environment", made, f"{note}."), found
    return Row("environment", made), found


def fit(
    algorithm: Algorithm, config: Config, spec: EnvSpec
) -> tuple[list[Row], RunSpec | None]:
    """Return whether the algorithm takes the spaces and has a network for them."""
    found = _described(spec)
    try:
        algorithm.check_spaces(spec)
    except UserError as refused:
        return [error("spaces", found, str(refused))], None
    spaces = Row("spaces", found)
    try:
        run = build_run(algorithm, config, spec)
    except UserError as refused:
        return [spaces, error("network", "can't be made", str(refused))], None
    sizes = (
        f"{model.name} {counted(layout.n_weights, 'weight')}"
        for model, layout in zip(algorithm.models, run.layouts, strict=True)
    )
    return [spaces, Row("network", ", ".join(sizes))], run


def trial(
    diagnosis: TimedSubprocess, env: str, n_envs: int, pickled: int, until: float
) -> tuple[list[Row], Acted | None]:
    """Return how an env actor's environments and its acting went.

    Args:
        diagnosis: runs `actors.diagnosis.diagnose`.
        env: the flag with its value.
        n_envs: of the env actor.
        pickled: bytes that it is made from.
        until: when to give up, time.monotonic().
    """
    names = ["worker", "step", "rewards", "acting"]
    rows: list[Row] = []
    acted, doing, began = None, "be made", time.monotonic()
    envs = counted(n_envs, "environment")
    try:
        for event in diagnosis.items(until):
            match event:
                case Began(activity):
                    doing = activity
                case Failure():
                    rows.append(failed(names[len(rows)], f"can't {doing}", env, event))
                case EnvsMade(seconds):
                    made = f"{envs} made in {span(seconds)} from {pickled:,}"
                    rows.append(Row("worker", f"{made} pickled bytes"))
                case SteppedAtRandom():
                    rows += [_stepped(event, n_envs), _rewards(event)]
                case Acted():
                    acted = event
    except TimeoutError:
        name, waited = names[len(rows)], time.monotonic() - began
        if doing == "be made":  # one could be
            found = f"{envs} took more than {waited:.0f} s to make"
            remedy = "Expect train to start late, or lower --n-envs."
            rows.append(warning(name, found, remedy))
        elif doing != "act":  # which makes them again
            rows.append(hangs(name, env, doing, waited))
    return rows, acted


def speed(config: Config, acted: Acted, n_actors: int, cpus: int) -> Row:
    """Return how fast all env actors together are, without learning."""
    rate = min(n_actors, cpus) / acted.microseconds * 1e6
    actors = f"{counted(n_actors, 'env actor')} on {counted(cpus, 'core')}"
    found = f"about {rate:,.0f} env steps/s by {actors}, without learning"
    if config.training.max_steps is not None:
        time_needed = span(config.training.max_steps / rate)
        found += f"; --max-steps takes {time_needed} of that"
    if rate >= _SLOW_RATE:
        return Row("acting", found)
    return warning(
        "acting",
        found,
        "Make the environment's step faster, or raise --n-envs and step on more "
        "cores: --vectorization async, --n-actors, a cluster's --address.",
    )


def _described(spec: EnvSpec) -> str:
    shape = "×".join(map(str, spec.observation_shape))
    kind = f"frames, {spec.stack} stacked" if spec.is_image else "numbers"
    actions = "discrete action" if spec.is_discrete else "continuous action"
    units = counted(spec.action_units, actions)
    return f"{shape} {spec.observation_dtype} {kind}; {units}"


def _stepped(steps: SteppedAtRandom, n_envs: int) -> Row:
    median = f"median of {counted(steps.count, 'vector step')} of {n_envs}"
    return Row("step", f"{steps.microseconds:,.1f} µs per env step, {median}")


def _rewards(steps: SteppedAtRandom) -> Row:
    found = f"finite, {steps.low:g} to {steps.high:g} at random"
    if steps.returns:
        mean = sum(steps.returns) / len(steps.returns)
        found += f"; mean return {mean:.2f} of {counted(len(steps.returns), 'episode')}"
    return Row("rewards", found)
