"""Environments of users that break Gymnasium's interface: one sentence, their line."""

import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import run_of, setup_of, weights_of
from processes import python
from stepping import Stepping

from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.make import check_env, make_envs
from xagents_ray.commands import cli
from xagents_ray.core.errors import EnvironmentFault, UserError
from xagents_ray.policy.episodes import evaluate_policy
from xagents_ray.settings.episodes import EvaluateConfig
from xagents_ray.settings.training import EnvConfig

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)


class Sound(Stepping):
    """An environment that keeps to the interface."""

    length = 5

    def observe(self) -> Any:
        return np.full(3, self.steps > 0, np.float32)


class TwoActions(Sound):
    action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), BOX])

    def __init__(self) -> None:
        pass


class Spaceless(gym.Env[Any, Any]):
    def __init__(self) -> None:
        pass


class OldStep(Sound):
    def step(self, action: Any) -> Any:
        return np.ones(3, np.float32), 1.0, False, {}


class OldStepInWrappers(gym.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's wrapper around it is the one that raises."""

    def __init__(self) -> None:
        super().__init__(gym.wrappers.TimeLimit(OldStep(), 9))


class OldReset(Sound):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32)


class SeedlessReset(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(3, np.float32), {}


class WrongShape(Sound):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(4, np.float32), {}


class WrongShapeLater(Sound):
    def step(self, action: Any) -> Any:
        return np.zeros((3, 1), np.float32), 1.0, False, False, {}


class WrongType(Sound):
    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((8, 8, 3)), {}


class NanAtReset(Sound):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.array([0, np.nan, 0], np.float32), {}


class NanLater(Sound):
    def step(self, action: Any) -> Any:
        self.steps += 1
        value = np.nan if self.steps == 40 else 1
        return np.full(3, value, np.float32), 1.0, False, False, {}


class NoReward(Sound):
    def step(self, action: Any) -> Any:
        return np.ones(3, np.float32), None, False, False, {}


class Raising(Sound):
    def __init__(self) -> None:
        self.licence = {}["licence"]  # type: ignore[var-annotated]


class RaisingLater(Sound):
    def step(self, action: Any) -> Any:
        raise RuntimeError("the simulator crashed")


def with_arguments(level: int) -> Sound:
    return Sound()


def returning_a_number() -> int:
    return 3


NUMBER = 3


def line_of(what: Any, text: str = "") -> int:
    """Return where something is defined, or its line with a text."""
    lines, first = inspect.getsourcelines(what)
    return first + next(i for i, line in enumerate(lines) if text in line)


# What is made: words of the sentence, and the line that it names.
FAULTS: dict[str, tuple[str, int | None]] = {
    "TwoActions": (r"Tuple\(Discrete\(2\), Box", line_of(TwoActions.__init__)),
    "Spaceless": ("its observation_space is not a space", line_of(Spaceless.__init__)),
    "OldStep": (r"step\(\) returned 4 values", line_of(OldStep.step)),
    "OldStepInWrappers": ("expected 5, got 4", line_of(OldStep.step)),
    "OldReset": (r"reset\(\) returned one ndarray", line_of(OldReset.reset)),
    "SeedlessReset": ("no seed and no options", line_of(SeedlessReset.reset)),
    "WrongShape": (r"shape \(4,\).*has \(3,\)", line_of(WrongShape.reset)),
    "WrongShapeLater": (r"shape \(3, 1\)", line_of(WrongShapeLater.step)),
    "WrongType": ("of float64 numbers.*has uint8", line_of(WrongType.reset)),
    "NanAtReset": ("an observation of nan", line_of(NanAtReset.reset)),
    "NanLater": ("an observation of nan", line_of(NanLater.step)),
    "NoReward": ("returned None as the reward", line_of(NoReward.step)),
    "Raising": ("KeyError: 'licence'", line_of(Raising.__init__, "{}")),
    "with_arguments": ("missing a required argument: 'level'", line_of(with_arguments)),
    "returning_a_number": ("returned 3", line_of(returning_a_number)),
    "3": ("module test_interface has no 3 and", None),
    "NUMBER": ("its factory is 3", None),
}
LATER = {"OldStep", "OldStepInWrappers", "WrongShapeLater", "NanLater", "NoReward"}


@pytest.mark.parametrize("name", FAULTS)
def test_one_sentence_names_their_file_and_line(name: str) -> None:
    words, line = FAULTS[name]
    env = f"{__name__}:{name}"
    with pytest.raises(UserError, match=words) as raised:
        check_env(EnvConfig(env=env))
        assert name in LATER
        setup = setup_of("ppo", 2, env=env)
        EnvActor(setup).rollout(weights_of(setup), 64, 0)
    sentence = str(raised.value)
    where = "test_interface.py" + ("" if line is None else f", line {line})")
    assert where in sentence
    assert env in sentence and "--lr" not in sentence
    assert "\n" not in sentence and sentence.endswith(".")


@pytest.mark.parametrize("name", ["OldStep", "NanLater"])
def test_in_processes_of_their_own_too(name: str) -> None:
    envs = make_envs(EnvConfig(env=f"{__name__}:{name}", vectorization="async"), 2, 1)
    envs.reset(0)
    with pytest.raises(EnvironmentFault, match=FAULTS[name][0]):
        for _ in range(50):
            envs.step(np.zeros(2, np.int32))
    envs.close()


class OwnVector(gym.vector.VectorEnv[Any, Any, Any]):
    """A vector form of their own, which nothing looks at step by step."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.steps = num_envs, 0
        self.single_observation_space = BOX
        self.single_action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((self.num_envs, 3), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        rows = np.zeros((self.num_envs, 3), np.float32)
        rows[-1, 0] = np.inf if self.steps == 40 else 0
        no = np.zeros(self.num_envs, np.bool_)
        return rows, np.ones(self.num_envs), no, no, {}


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    ids: list[str] = []

    def register(env_id: str, **entries: Any) -> None:
        ids.append(env_id)
        gym.register(env_id, **entries)

    yield register
    for each in ids:
        del gym.registry[each]


def test_a_vector_form_of_their_own(registered: Callable[..., None]) -> None:
    registered("OwnVector-v0", entry_point=Sound, vector_entry_point=OwnVector)
    setup = setup_of("ppo", 2, env="OwnVector-v0")
    with pytest.raises(EnvironmentFault, match="it gave an observation of inf"):
        EnvActor(setup).rollout(weights_of(setup), 64, 0)


@pytest.mark.parametrize("kind", [OldStep, NanLater])
def test_registered_ones(kind: type, registered: Callable[..., None]) -> None:
    registered("Own-v0", entry_point=kind)
    setup = setup_of("ppo", 2, env="Own-v0")
    with pytest.raises(EnvironmentFault, match=f"line {line_of(kind.step)}"):
        EnvActor(setup).rollout(weights_of(setup), 64, 0)


def test_what_is_well_is_left_alone() -> None:
    setup = setup_of("ppo", 2, env=f"{__name__}:Sound")
    trajectory, _ = EnvActor(setup).rollout(weights_of(setup), 8, 0)
    assert (trajectory.observations[1:5] == 1).all()


@pytest.fixture
def in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")


def complaint(capsys: pytest.CaptureFixture[str], env: str, *flags: str) -> str:
    words = ["train", "ppo", "--local", "--max-steps", "1000", "--env", env]
    assert cli.run([*words, *flags]) == 2
    return capsys.readouterr().err


def test_the_traceback_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    """Theirs alone: it begins with the first line of theirs."""
    env = f"{__name__}:Raising"
    sentence = complaint(capsys, env)
    assert sentence.count("\n") == 1 and "--traceback" in sentence
    error = complaint(capsys, env, "--traceback")
    assert error.startswith("Traceback (most recent call last):\n")
    assert error.endswith(sentence)
    assert "KeyError: 'licence'" in error
    assert set(re.findall(r'File "(.+?)"', error)) == {__file__}
    assert 'self.licence = {}["licence"]' in error


class Full(Sound):
    def reset(self, **_: Any) -> Any:
        raise MemoryError("Unable to allocate 3 GiB")


def test_a_machine_without_memory_is_no_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", "ppo", "--local", "--max-steps", "1000"]
    assert cli.run([*words, "--env", f"{__name__}:Full"]) == 1
    assert "Out of memory (MemoryError: Unable to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("\nimport os\n\nimport xyzzy_missing", "No module named 'xyzzy_missing'", 4),
        ("x = 1\ndef f(:\n", "SyntaxError: invalid syntax", 2),
        ("\n\nraise OSError('no licence')", "OSError: no licence", 3),
    ],
)
@pytest.mark.usefixtures("in_path")
def test_a_module_that_cannot_be_imported(
    text: str, words: str, line: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own_broken.py").write_text(text)
    error = complaint(capsys, "own_broken:make")
    assert error.count("\n") == 1
    assert f"{words} (own_broken.py, line {line})" in error


def test_a_crash_while_it_is_evaluated() -> None:
    env = f"{__name__}:RaisingLater"
    run, weights = run_of("ppo", 1, env=env), weights_of(setup_of("ppo", 1, env=env))
    line = line_of(RaisingLater.step, "raise")
    with pytest.raises(EnvironmentFault, match=rf"simulator crashed \(.*line {line}\)"):
        evaluate_policy(run, weights, EvaluateConfig(episodes=1))


def test_a_fault_comes_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(EnvironmentFault("It is broken.", "Traceback")))
    assert (str(error), error.trace) == ("It is broken.", "Traceback")


OWN = """
import gymnasium

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, True, False, {}

gymnasium.register("Registered-v3", Own)
gymnasium.register("names/Spaced-v1", "gymnasium.envs.classic_control:CartPoleEnv")
"""
_PROBE = """
import sys
sys.path.append("")
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.settings.training import EnvConfig
for vectorization in ("auto", "async"):
    for name in ("Registered-v3", "names/Spaced-v1", "Own"):
        config = EnvConfig(env=f"own_ids:{name}", vectorization=vectorization)
        envs = make_envs(config, 2, 1)
        print(envs.reset(0).shape)
        envs.close()
"""


def test_ids_that_importing_a_module_registers() -> None:
    """In a process of its own: nothing has imported the module there."""
    Path("own_ids.py").write_text(OWN)
    done = python("-c", _PROBE)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == ["(2, 3)", "(2, 4)", "(2, 3)"] * 2


@pytest.mark.usefixtures("in_path")
def test_an_id_that_is_neither(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own_neither.py").write_text("import gymnasium\nx = 3\n")
    error = complaint(capsys, "own_neither:Registrd-v3")
    words = "module own_neither has no Registrd-v3 and registers no such environment"
    assert words in error
    assert "own_neither.py" in error and error.count("\n") == 1
    Path("own_neither.py").write_text("class Boom: pass\n")
    sys.modules.pop("own_neither")
    assert complaint(capsys, "own_neither:Bom").endswith("did you mean Boom?\n")
