"""What a command line may leave out: the agent, and the newest run."""

import os
import re
from collections.abc import Sequence
from pkgutil import resolve_name

import click

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.table import all_algorithms
from xagents_ray.core.errors import UserError, did_you_mean, printable, shown
from xagents_ray.policy.card import agent_of
from xagents_ray.run.config_file import chosen_algorithm
from xagents_ray.settings.paths import local_path
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage.run_directory import locate_run
from xagents_ray.storage.weights import is_file_name

_ENV = re.compile(r"(\S+[:/])?[A-Za-z]\w*-v\d+$")
"""What the ID of an environment looks like."""
_WITHOUT_RUN = ("-h", "--help", "--help-all", "--weights")


def with_preset_of(words: Sequence[str]) -> list[str]:
    """Return the words of `train ENV …` with the best agent there, and its preset.

    Those of `train --config FILE …` get the file's agent.

    Other words are returned unchanged.

    Raises:
        UserError: no agent has a recorded result in the environment.
    """
    env, *others = words or ("",)
    if env.startswith("-") or env in all_algorithms():
        return with_agent_of_config(words)
    found = presets.recommended(env)
    if found is None:
        _refuse(env)
        return [*words]
    if any(word.partition("=")[0] == "--env" for word in others):
        raise UserError(f"{env} names the environment already: leave out --env.")
    preset = [] if _value(others, "--preset") is not None else ["--preset=auto"]
    if "--quiet" not in others:
        click.echo(
            f"{found.agent} for {env}, preset: {found.expected}; choose with train "
            f"AGENT --env {env}"
        )
    return [found.agent, "--env", env, *preset, *others]


def with_agent_of_config(words: Sequence[str]) -> list[str]:
    """Return the words of `train --config FILE …` with the file's agent.

    Words that begin with an agent are returned unchanged.
    """
    file = _value(words, "--config")
    if file is None or not words[0].startswith("-"):
        return [*words]
    return [chosen_algorithm(None, file).name, *words]


def with_run(words: Sequence[str]) -> list[str]:
    """Return the words of `play RUN …` or `evaluate RUN …` with the run's agent.

    Without a run or an agent it is the newest run. A weights file that says what it is
    of may take the run's place. Words that begin with an agent are returned unchanged.

    Raises:
        UserError: there is no such run, and there are words.
    """
    first, *others = words or ("",)
    if first in all_algorithms():
        return [*words]
    if is_file_name(file := _value(words, "--weights") or first):
        given = ["--weights", file, *others] if file == first else words
        return [*([agent] if (agent := agent_of(file)) else []), *given]
    is_flag = first.startswith("-")  # --run-dir=/a has a separator
    is_run = (
        first == "last" or os.path.isdir(first) or (os.sep in first and not is_flag)
    )
    is_other = bool(first) and not is_run and not is_flag
    is_without = any(_value(words, flag) is not None for flag in _WITHOUT_RUN)
    if is_other or is_without:
        return [*words]
    others = others if is_run else [*words]
    named = first if is_run else _value(others, "--run")
    try:
        agent, path = _located("--run", named or "last", others)
    except UserError:
        if not words:
            return []
        raise
    click.echo(printable(f"{agent} of {path}"), err=True)
    given = [] if _value(others, "--run") else ["--run", path]
    return [agent, *given, *others]


def run_to_resume(words: Sequence[str]) -> list[str]:
    """Return the words after `train` that continue the newest run, or a named one.

    Raises:
        UserError: there is no such run.
    """
    is_named = bool(words) and not words[0].startswith("-")
    named, others = (words[0], words[1:]) if is_named else ("last", words)
    agent, path = _located("resume", named, others)
    return [agent, "--resume", path, *others]


def _located(flag: str, named: str, words: Sequence[str]) -> tuple[str, str]:
    """Return the agent of a run, and its directory or the checkpoint that is named."""
    given = _value(words, "--run-dir") or RunConfig().run_dir
    run_dir = local_path("--run-dir", given)
    directory, _ = locate_run(flag, named, run_dir, None)
    agent, _ = directory.settings()
    return agent, str(directory.path) if named == "last" else named


def _value(words: Sequence[str], flag: str) -> str | None:
    """Return the value of a flag among words; "" if it has none, None without it."""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            after = words[number + 1 : number + 2]
            return value if equals else "".join(x for x in after if x[:1] != "-")
    return None


def _refuse(word: str) -> None:
    """Raise UserError if a word is no agent's name, and more like an environment's."""
    if not word or did_you_mean(word, all_algorithms()):
        return
    if not (_ENV.match(word) or word[0].isupper()):
        known = {preset.env for preset in presets.all_presets()}
        if hint := did_you_mean(word, sorted(known)):
            raise UserError(f"There is no agent or environment {shown(word)}{hint}")
        return
    if ":" not in word:
        resolve_name("xagents_ray.actors.envs.registry:check_env_id")(word)
    raise UserError(
        f"No agent has a recorded result in {word:.80}: choose one, as in train ppo "
        f"--env {word:.80} --max-steps 100000."
    )
