"""`xagents_ray.load`: loads a trained policy from a run or a weights file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.settings import check_settings
from xagents_ray.core.errors import UserError
from xagents_ray.core.python_calls import python_call
from xagents_ray.policy.card import agent_of
from xagents_ray.policy.loading import SourceConfig, load_policy
from xagents_ray.policy.policy import Policy
from xagents_ray.settings.paths import local_path
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage.run_directory import locate_run
from xagents_ray.storage.weights import is_file_name


@python_call()
def load(
    source: str | Path | Sequence[str | Path],
    *,
    agent: str | None = None,
    env: Any = None,
    which: str | int | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Policy:
    """Load a trained policy, without TensorFlow and Ray.

    Args:
        source: directory of a run or of one of its checkpoints; `last`, the run in
            `runs` (or `run_dir=`) that was started or resumed last; or a weights file
            (.npz, .weights.h5, .tf; the actor's, if there are separate critics). Those
            of `Policy.save` in .npz say what they are of; others require `agent` and
            `env`. A whole Keras model, .keras or .h5, is `model` too.
        agent: name of the algorithm, such as `ppo`, if the source doesn't say it.
        env: the environment, as for `train`, if the source doesn't say it.
        which: checkpoint of a run: `best`, `last`, or its env step; None for `best` if
            the run used `eval_every`, else `last`.
        seed: seed of sampled actions; None for a random one.
        settings: flags of `evaluate` with `_` for `-`; weights files require those that
            training used: `model`, `preprocess`, `normalize_observations`, ….
    Raises:
        UserError: the policy is missing, damaged, or doesn't fit the environment.

    >>> policy = xagents_ray.load("runs/ppo/CartPole-v1/first", which="last")
    >>> action, state = policy.predict([0.0, 0.0, 0.1, 0.0])
    >>> int(action) in (0, 1)
    True
    """
    given = dict(settings, env=env, which=None if which is None else str(which))
    files, run_dir = _weights_files(source), settings.get("run_dir")
    described = agent_of(files[0]) if files else None
    if files and described is None and None in (agent, env):
        raise UserError(
            f"{files[0]} is a weights file that doesn't say what it is of: say that, "
            'as in load("policy.npz", agent="ppo", env="CartPole-v1").'
        )
    path = "" if files else local_path("load", str(source))
    given["weights" if files else "run"] = files or path
    algorithm = find_algorithm(agent or described or _agent_of(path, run_dir))
    given = check_settings(algorithm, (EnvConfig, SourceConfig), given)
    return Policy(load_policy(algorithm, given), seed)


def _agent_of(path: str, run_dir: Any) -> str:
    above = local_path("--run-dir", str(run_dir or SourceConfig.run_dir))
    return locate_run("load", path, above, None)[0].settings()[0]


def _weights_files(source: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    """Return the weights files that a source names; empty if it is a run."""
    if isinstance(source, list | tuple):
        return tuple(local_path("load", str(each)) for each in source)
    if not isinstance(source, str | Path):
        raise UserError(
            f"load takes a path, or last, and got a {type(source).__name__}: name the "
            "directory of a run, as in load(result.directory)."
        )
    source = local_path("load", source)
    is_file = is_file_name(str(source)) and not Path(source).is_dir()
    return (str(source),) if is_file else ()
