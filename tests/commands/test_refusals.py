"""What is refused is refused the same way wherever it is asked for.

Each case goes through `train`, `train --seeds`, `tune`, `doctor`, `launch`, Python's
`train` and `Agent`, in this process, without TensorFlow and Ray.
"""

import ast
import importlib
import importlib.util
import io
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from sources import tree_of

import xagents_ray
from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm
from xagents_ray.commands import cli, seeds, training_run
from xagents_ray.commands import tune as tuning
from xagents_ray.commands.doctor import examination
from xagents_ray.core.errors import UserError
from xagents_ray.core.python_calls import as_arguments
from xagents_ray.policy import own_loop
from xagents_ray.run.child import Child, Job, Outcome
from xagents_ray.settings.config import train_options
from xagents_ray.settings.options import flag, options
from xagents_ray.settings.training import EnvConfig

ROOT = Path(__file__).resolve().parents[2]
RUN, NEW = "runs/ppo/Pendulum-v1/before", "runs/ppo/Pendulum-v1/new"
STORED = ROOT / "tests/data/format-1/trained/ppo/Pendulum-v1/before"
BASE = {"env": "CartPole-v1", "max_steps": 9}
ADAM = '{"module": "keras.optimizers", "class_name": "Adam"}'
LOADER = '{"module": "keras.layers", "class_name": "TFSMLayer", "config": {}}'
FILES = {
    "raises.py": "raise ValueError('no room')",
    "text.yaml": "settings: [",
    "bare.yaml": "lr: 0.1",
    "escape.yaml": r'settings: {optimizer: "\e[2Ja"}',
    "alias.yaml": "settings: &a [*a]",
    "wrong.yaml": "settings: {lr: -1.0}",
    "seeded.yaml": "settings: {seed: 1}",
    "remote.yaml": "settings: {model: s3://bucket/a.cfg}",
    "twice.yaml": "lr: 0.1\nlr: 0.2",
    "list.yaml": "- lr",
    "ppo.yaml": "agent: ppo\nenv: CartPole-v1",
    "nobody.yaml": "agent: pp0",
    "later.yaml": "format: 99\nagent: ppo",
    "odd.yaml": "format: new\nagent: ppo",
    "ofrun.yaml": "format: 5\nagent: ppo\nenv: {env: CartPole-v1}",
    "section.yaml": "placemnt: {local: true}",
    "unknown.yaml": "lrr: 0.1",
    "fast.yaml": "algorithm: {lr: fast}",
    "far.yaml": "model: s3://bucket/a.cfg",
    "text.cfg": "nothing",
    "units.cfg": "[dense-0]\nunits=many\n",
    "lstm.cfg": "[lstm-0]\nunits=2\n[dense-0]\noutput=1\n",
    "one.cfg": "[dense-0]\nunits=2\noutput=1\n",
    "sees.cfg": "[input-compass]\n[dense-0]\noutput=1\nfrom=input-compass\n"
    "[dense-1]\noutput=1\nfrom=input-compass\n",
    "blind.cfg": "[input-arm.joints]\n[dense-0]\noutput=1\nfrom=input-arm.joints\n"
    "[dense-1]\noutput=1\nfrom=input-arm.joints\n",
}


class Odd(xagents_ray.Callback):
    def on_hundred_thousand_frames(self, ctx: Any) -> None:
        """Be called by no event."""


class Needy(xagents_ray.Callback):
    def __init__(self, more: Any) -> None:
        """Take what nobody gives."""


def pictures() -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("CartPole-v1")
    space = gymnasium.spaces.Box(0, 255, (36, 36, 3), np.uint8)
    return gymnasium.wrappers.TransformObservation(
        env, lambda _: np.zeros((36, 36, 3), np.uint8), space
    )


Case = tuple[str, dict[str, Any], str]
# Agent, settings besides BASE (None takes one away), and words … of the sentence.
ASKED: list[Case] = [
    (
        "ppo",
        {"critic_inputs": ","},
        "--critic-inputs names inputs, separated by commas",
    ),
    ("ppo", {"env": None}, "--env is missing: name one"),
    ("ppo", {"env": "Blackjack-v1", "max_steps": None}, "Training needs an end: give"),
    ("ppo", {"lr": "many"}, "--lr takes a number, or a schedule such as line"),
    ("ppo", {"vectorization": "fast"}, "--vectorization takes one of auto, vector"),
    ("ppo", {"model": ""}, "--model is empty: name a file, or leave it out."),
    ("ppo", {"run_dir": "s3://bucket/runs"}, "--run-dir s3://bucket/runs: URLs are"),
    ("ppo", {"weights": "gs://a/b.npz"}, "--weights gs://a/b.npz: URLs are not"),
    ("ppo", {"name": "a/b"}, "--name 'a/b' can't name a directory"),
    ("ppo", {"n_envs": 2**63}, "--n-envs takes a whole number, got 922337203685477"),
    ("ppo", {"lr": -1.0}, "--lr must be > 0, got -1.0."),
    ("ppo", {"checkpoints": ["a.h5"]}, "a.h5: not the name of a weights file"),
    ("ppo", {"lr": math.nan}, "--lr takes a number, got nan."),
    ("ppo", {"n_envs": 0}, "--n-envs must be ≥ 1, got 0."),
    ("ppo", {"n_envs": "1.5"}, "--n-envs takes a whole number, got '1.5'."),
    ("ppo", {"max_frame": True}, "--max-frame has no effect without --preprocess"),
    ("trpo", {"critic_lr": 0.1, "lr": 0.1}, "--lr has no effect with --critic-lr"),
    ("ppo", {"verbose": 1}, "--verbose isn't a setting of this agent"),
    ("ppo", {"vf_clip_param": 1}, "a value, and here --clip-value bounds the change"),
    ("trpo", {"clip_norm": 1}, "set the critic's passes with --critic-iterations"),
    ("trpo", {"ppo_epochs": 1}, "set the critic's passes with --critic-iterations"),
    ("trpo", {"replay_ratio": 1}, "its trust region bounds the KL divergence"),
    ("acer", {"rollout_length": 4}, "the steps of a rollout with --n-steps"),
    ("acer", {"train_frequency": 4}, "--train-frequency isn't a setting of this agent"),
    ("acer", {"gradient_steps": 4}, "the replay buffer with --replay-ratio"),
    ("a2c", {"buffer_batch_size": 2}, "an update replays as many trajectories as a"),
    ("ppo", {"n_actors": 2}, "--n-actors 2 is more than --n-envs 1"),
    ("ppo", {"local": True, "n_actors": 1}, "--n-actors applies only to runs on Ray"),
    ("ppo", {"local": True, "worker_env": "A"}, "--worker-env applies only to runs on"),
    ("ppo", {"worker_env": "=1"}, "--worker-env takes NAME=VALUE or NAME, got '=1': w"),
    (
        "ppo",
        {"max_steps": None, "target_reward": 1.0, "lr_decay": True},
        "--lr-decay falls to 0 over --max-steps: give it.",
    ),
    (
        "ppo",
        {"max_steps": None, "target_reward": 1.0, "lr": "linear:1e-3:0"},
        "--lr changes over --max-steps: give it.",
    ),
    ("ppo", {"lr": "linear:1e-3"}, "or 0:3e-4,0.5:1e-4,1:0, got 'linear:1e-3'."),
    ("ppo", {"entropy_coef": "0:1,0:2"}, "--entropy-coef takes a number, or a"),
    ("ppo", {"clip_norm": "linear:0.2:-1"}, "--clip-norm must be ≥ 0, got -1.0."),
    (
        "ppo",
        {"lr": "linear:1e-3:0", "lr_decay": True},
        "--lr-decay and a schedule of --lr contradict each other: drop one.",
    ),
    (
        "ppo",
        {"clip_norm": "linear:1:0", "clip_decay": True},
        "--clip-decay and a schedule of --clip-norm contradict each other: drop one.",
    ),
    (
        "ppo",
        {"desired_kl": 0.01, "lr_decay": True},
        "--desired-kl adapts the learning rate, which --lr-decay or a schedule",
    ),
    ("ppo", {"asynchronous": True}, "--asynchronous lets env actors run ahead of"),
    (
        "ppo",
        {"asynchronous": True, "policy_lag": 1, "round_deadline": 1.0},
        "--round-deadline limits rounds, which --asynchronous doesn't have",
    ),
    ("ppo", {"learner_gpus": 1.5}, "--learner-gpus 1.5 can't be reserved"),
    (
        "ppo",
        {"n_learners": 2, "learner_gpus": 0.5},
        "--learner-gpus 0.5 is a part of a GPU, and each of --n-learners 2 needs one",
    ),
    (
        "ppo",
        {"n_learners": 2, "jit": "on"},
        "--n-learners sums over learners, which XLA can't compile on CPUs: leave out",
    ),
    (
        "ppo",
        {"inference": "learner", "n_actors": "auto"},
        "--inference learner computes for as many env actors as there are at the start",
    ),
    (
        "td3",
        {"inference": "learner", "noise": "parameter"},
        "--noise parameter gives each environment a network of its own",
    ),
    ("ppo", {"env_kwargs": ["gravity"]}, "--env-kwargs takes key=value, or a JSON"),
    ("ppo", {"optimizer": ADAM, "lr": 0.1}, "--lr is set by the optimizer that was"),
    ("ppo", {"optimizer": "rmsprop", "beta1": 0.5}, "--beta1 is Adam's and"),
    ("ppo", {"optimizer": LOADER}, "--optimizer takes adam, rmsprop, or from Python"),
    ("ppo", {"n_steps": 2}, "--mini-batches 4 is more than the batch of 2 samples"),
    (
        "ppo",
        {"sde_frequency": 0},
        "--sde-frequency takes 1 or more steps, or -1 for those of a rollout, got 0; "
        "leave it out",
    ),
    ("ppo", {"sde_frequency": -2}, "--sde-frequency must be ≥ -1"),
    ("ppo", {"memory": "lstm"}, "such as lstm:128 or gru:64, got 'lstm'"),
    ("trpo", {"memory": "gru:9", "critic_model": "a.cfg"}, "--critic-model replaces"),
    ("dqn", {"burn_in": 16}, "--burn-in 16 leaves nothing to learn from in sequences"),
    ("dqn", {"buffer_max_size": 31}, "--buffer-max-size 31 is smaller than the 32"),
    ("dqn", {"replay_shards": 2}, "--replay-shards 2 is more than --n-envs 1"),
    ("dqn", {"distributional": True, "v_min": 20.0}, "--v-min 20 is not below --v-max"),
    (
        "dqn",
        {"noisy": "factorised", "epsilon_ladder": True},
        "--noisy explores in place of epsilon: drop it",
    ),
    ("dqn", {"noisy_sigma": 0.5}, "--noisy-sigma is for --noisy: add that."),
    ("dqn", {"atoms": 9}, "--atoms is for --distributional: add that."),
    ("dqn", {"priority_alpha": 0.1}, "--priority-alpha 0.1 is for prioritized replay"),
    ("dqn", {"her_goals": 9}, "--her-goals 9 is for hindsight … add --her future"),
    ("sac", {"init_log_std": 1.0}, "--init-log-std 1 is … add --sde-frequency, or"),
    ("sac", {"alpha": "some"}, "--alpha takes auto or a number of 0 or more"),
    ("sac", {"n_step_entropy": False}, "--no-n-step-entropy is … add --n-step 3, or"),
    (
        "sac",
        {"alpha": "0.1", "target_entropy": 1.0},
        "--target-entropy is what --alpha",
    ),
    ("acer", {"n_envs": 9, "buffer_max_size": 8}, "less than one trajectory for each"),
    (
        "a2c",
        {"replay_ratio": 1.0, "buffer_max_size": 1, "n_envs": 2},
        "less than one trajectory for each",
    ),
    ("acer", {"buffer_batch_size": 2}, "--buffer-batch-size 2: ACER replays one"),
    ("a2c", {"buffer_max_size": 9}, "--buffer-max-size is for a replay buffer: add"),
    ("impala", {"replay_share": 0.5, "replay_ratio": 1.0}, "--replay-share replays"),
    ("ppo", {"env": None, "preset": "auto"}, "--preset goes by the environment"),
    ("ppo", {"env": "Blackjack-v1", "preset": "auto"}, "There is no preset of ppo for"),
    ("ppo", {"preset": "gone.yaml"}, "--preset gone.yaml: No such file or directory"),
    ("ppo", {"preset": "text.yaml"}, "--preset text.yaml is not YAML: write"),
    ("ppo", {"preset": "alias.yaml"}, "--preset alias.yaml: it has an alias, as in *"),
    ("ppo", {"preset": "escape.yaml"}, r"without control characters, got '\x1b[2Ja'."),
    ("ppo", {"preset": "bare.yaml"}, "--preset bare.yaml has no settings: write"),
    ("ppo", {"preset": "wrong.yaml"}, "--preset wrong.yaml: --lr must be > 0"),
    ("ppo", {"preset": "s3://a/b.yaml"}, "--preset s3://a/b.yaml: URLs are not"),
    ("ppo", {"preset": "remote.yaml"}, "remote.yaml: --model s3://bucket/a.cfg: URLs"),
    ("ppo", {"preset": "seeded.yaml"}, "--seed can't be part of a preset: give it"),
    (
        "ppo",
        {"config": "gone.yaml"},
        "--config gone.yaml: No such file or directory; n",
    ),
    ("ppo", {"config": "."}, "--config .: Is a directory; name the file in it"),
    ("ppo", {"config": "s3://a/b.yaml"}, "--config s3://a/b.yaml: URLs are not"),
    ("ppo", {"config": "text.yaml"}, "--config text.yaml is not YAML: write each"),
    ("ppo", {"config": "list.yaml"}, "--config list.yaml has no settings: write each"),
    ("ppo", {"config": "alias.yaml"}, "--config alias.yaml: it has an alias, as in *"),
    ("ppo", {"config": "twice.yaml"}, "--config twice.yaml: it has 'lr' twice; write"),
    ("ppo", {"config": "wrong.yaml"}, "is a preset, which has `settings:`: give it"),
    ("a2c", {"config": "ppo.yaml"}, "--config ppo.yaml is for ppo, not for a2c: name"),
    ("ppo", {"config": "nobody.yaml"}, "There is no agent 'pp0'; did you mean ppo?"),
    ("ppo", {"config": "later.yaml"}, "--config later.yaml has format 99, and this"),
    ("ppo", {"config": "odd.yaml"}, "--config odd.yaml: its format is 'new'; write"),
    ("ppo", {"config": "section.yaml"}, "no section 'placemnt'; did you mean placem"),
    ("ppo", {"config": "unknown.yaml"}, "unknown.yaml: There is no setting 'lrr'; did"),
    ("ppo", {"config": "fast.yaml"}, "--config fast.yaml: --lr takes a number, or"),
    ("ppo", {"config": "far.yaml"}, "far.yaml: --model s3://bucket/a.cfg: URLs are"),
    (
        "ppo",
        {"config": "ofrun.yaml", "preset": "auto"},
        "--preset has no effect with --config ofrun.yaml, which has all settings of",
    ),
    ("ppo", {"resume": RUN, "config": "ppo.yaml"}, "--config is for a new run and --r"),
    ("ppo", {"weights": ["a.npz", "b.npz"]}, "--weights names 2 files and ppo has 1"),
    ("ppo", {"weights": ["a.txt"]}, "a.txt: not the name of a weights file"),
    ("ppo", {"checkpoints": ["a.foo"]}, "must end in .tf, .weights.h5, .npz or .keras"),
    ("td3", {"checkpoints": ["a.npz"]}, "--checkpoints names 1 file and td3 has 3"),
    ("pppo", {}, "There is no agent 'pppo'; did you mean ppo"),
    (
        "ppo",
        {"callbacks": ["raises:fn"]},
        "no room (raises.py, line 1); fix it",
    ),
    ("ppo", {"callbacks": ["json"]}, "--callbacks json: name it as package.module:"),
    ("ppo", {"callbacks": ["nosuch:fn"]}, "module nosuch can't be imported"),
    ("ppo", {"callbacks": ["json:dumbs"]}, "json has no dumbs; did you mean dumps"),
    ("ppo", {"callbacks": ["json:decoder"]}, "take an xagents_ray.Callback, another"),
    (
        "ppo",
        {"callbacks": ["test_refusals:Odd"]},
        "is called by no event; there are",
    ),
    ("ppo", {"callbacks": ["test_refusals:Needy"]}, "it is made without arguments."),
    ("ppo", {"resume": "gone"}, "--resume gone: there is no such directory"),
    ("ppo", {"resume": "."}, "is not a run's directory (config.yaml: No such"),
    ("ppo", {"resume": "last", "run_dir": "else"}, "There is no run of ppo in else"),
    ("a2c", {"resume": RUN}, f"{RUN} is a run of ppo, not of a2c: use train ppo."),
    ("ppo", {"resume": RUN, "n_envs": 99}, f" in {RUN} and can't change on --resume"),
    ("ppo", {"resume": RUN, "lr": 1.0}, f" in {RUN} and can't change on --resume"),
    ("ppo", {"resume": RUN, "name": "b"}, "--name is for a new run and --resume"),
    ("ppo", {"resume": RUN}, "weights/ppo-policy.npz, outside of its directory: give"),
    ("ppo", {"resume": NEW}, f"{NEW} has no checkpoint yet: start it again."),
    ("ppo", {"seeds": [1], "seed": 2}, "--seed can't be given with --seeds: --seeds"),
]
NAMED: list[Case] = [  # that a command line can't give, or answers as it knows flags
    ("ppo", {"callbacks": [3]}, "--callbacks takes callbacks: objects with methods"),
    ("ppo", {"callbacks": 3}, "--callbacks takes callbacks: objects with methods"),
    ("ppo", {"wrappers": [3]}, "--wrappers takes module:Class of a wrapper, or"),
    ("ppo", {"env": 3}, "--env takes the id of an environment, package.module"),
    ("ppo", {"seeds": []}, "--seeds takes one value or more, got ()."),
    ("a2c", {"online_learning": False}, "--no-online-learning leaves only the replay"),
    ("ppo", {"seeds": 3}, "--seeds takes one value or more"),
    ("ppo", {"lr": 10**400}, "--lr takes a number, got 10000000000000000000000000"),
    ("ppo", {"name": "a\x1b[2J"}, r"text without control characters, got 'a\x1b[2J'."),
    ("ppo", {"lr": 10**5_000}, "--lr takes a number, got a value of int with too many"),
    ("ppo", {"seeds": [-1]}, "--seeds must be"),
    ("ppo", {"learning_rate": 1}, "There is no setting 'learning_rate'; did you mean"),
    ("ppo", {"load_model": "a.h5"}, "give the file of a Keras model, a.keras or a.h5"),
    ("ppo", {"load_model_custom": 1}, "load_model('a.keras', custom_objects=…)."),
    ("ppo", {"batch_size": 2}, "into how many batches it is divided with --mini-b"),
    ("acer", {"batch_size": 2}, "--batch-size isn't a setting of this agent: an upd"),
    ("a3c", {"batch_size": 2}, "set --n-envs to their number times --n-actors."),
    ("ppo", {"her": "future"}, "ppo has no setting her, which is one of"),
    ("ppo", {"env_kwargs": {"x": object()}}, "which a run's settings can't hold"),
    ("ppo", {"env": gymnasium.Env()}, "an environment that is made already"),
    ("ppo", {"resume": 3}, "--resume takes the directory of a run, or last, got 3"),
    ("ppo", {"resume": True}, "--resume takes the directory of a run, or last, got T"),
]
PARTS = {"env": "dict_envs:compass"}
MADE: list[Case] = [  # only once there is an environment; `launch` makes none
    ("ppo", {"worker_env": "UNSET"}, "--worker-env UNSET: it isn't set here; set it"),
    ("ppo", {"critic_inputs": "compass"}, "names parts of Dict or Tuple observations"),
    ("ppo", {**PARTS, "critic_inputs": "sun"}, "--critic-inputs: there is no input"),
    (
        "ppo",
        {**PARTS, "critic_inputs": "arm.joints,camera,compass,map"},
        "leaves no input for the policy",
    ),
    (
        "ppo",
        {**PARTS, "critic_inputs": "compass", "model": "sees.cfg"},
        "sees.cfg: the policy's output reads compass, which --critic-inputs",
    ),
    (
        "ppo",
        {**PARTS, "critic_inputs": "compass", "model": "blind.cfg"},
        "blind.cfg: no value reads compass of --critic-inputs",
    ),
    ("ppo", {"env": "CartPol-v1"}, "There is no environment 'CartPol-v1'; did you"),
    ("ppo", {"env": "LunarLander-v2"}, "no longer exists; use LunarLander-v3"),
    ("ppo", {"env": "CartPole"}, "There is no environment 'CartPole'; did you mean"),
    ("ppo", {"env": "xyzzy"}, "There is no environment 'xyzzy'; see gymnasium"),
    ("ppo", {"env": "Xyzzyx-v2"}, "; see gymnasium.pprint_registry()."),
    ("ppo", {"env": "collections:Counter"}, "gymnasium.Env"),
    ("ppo", {"frame_stack": 2}, "--frame-stack is for images and the observations of"),
    ("ppo", {"env": "nowhere:make"}, "module nowhere can't be imported"),
    ("ppo", {"env": "json:dumbs"}, "did you mean dumps"),
    ("ppo", {"env": "./mine.py:make"}, "name a module as package.module:make, with"),
    (
        "ppo",
        {"env_kwargs": ["max_episode_steps=0"]},
        "can't be made (ValueError: Expect the `max_episode_steps` to be positive",
    ),
    ("ppo", {"env_kwargs": ["x=1"]}, "--env-kwargs: CartPole-v1 takes no x; leave it"),
    ("ppo", {"preprocess": True}, "--preprocess is for images and the observations of"),
    ("ppo", {"wrappers": ["nowhere:W"]}, "--wrappers nowhere:W can't be imported"),
    (
        "ppo",
        {"state_to_input": "f"},
        "--state-to-input f is not of the form module:nam",
    ),
    ("ppo", {"vectorization": "vector", "env": "Acrobot-v1"}, "has no vector env"),
    ("dqn", {"env": "Pendulum-v1"}, "dqn can't take the continuous actions of this"),
    (
        "ppo",
        {"env": "Pendulum-v1", "noisy": "factorised"},
        "--noisy factorised is for discrete actions and this environment's are "
        "continuous: use --sde-frequency, or leave it out.",
    ),
    ("dqn", {"her": "future"}, "--her is for goal environments, whose observations"),
    ("ppo", {"init_log_std": 1.0}, "--init-log-std 1.0 is for continuous actions and"),
    ("ppo", {"action_scaling": False}, "--no-action-scaling is for continuous actions"),
    ("dqn", {"burn_in": 2}, "--burn-in 2 is for networks with memory: add --memory"),
    (
        "dqn",
        {"memory": "gru:9", "n_step": 15, "burn_in": 2},
        "--n-step 15 is more than the 14 steps of each sequence",
    ),
    (
        "td3",
        {"env": "Pendulum-v1", "actor_model": "lstm.cfg"},
        "lstm.cfg: [lstm-0]: td3 can't learn with memory; remove the section",
    ),
    ("ppo", {"memory": "gru:9"}, "--mini-batches 4 is more than --n-envs 1, and with"),
    ("ppo", {"checkpoint_replay": True}, "--checkpoint-replay has no effect without"),
    ("ppo", {"inference": "onnx"}, "--inference onnx is for networks with convolution"),
    (
        "a3c",
        {"n_learners": 2},
        "--n-learners shares the rows of an update, and a3c learns from one",
    ),
    (
        "ppo",
        {"env": "test_refusals:pictures", "normalize_observations": True},
        "--normalize-observations is for vectors and this environment gives images",
    ),
    ("ppo", {"feature_maker": "f"}, "--feature-maker f: name a function, module:"),
    ("ppo", {"model": "gone.cfg"}, "gone.cfg: can't be read (No such file"),
    ("ppo", {"model": "text.cfg"}, "text.cfg: not a .cfg file: "),
    (
        "ppo",
        {"model": "units.cfg"},
        "[dense-0] units: must be a whole number ≥ 1, got",
    ),
    ("ppo", {"model": "one.cfg"}, "one.cfg: has 1 output layer and the agent needs 2"),
    ("ppo", {"weights": ["gone.npz"]}, "gone.npz: no such weights file"),
    (
        "dqn",
        {"dueling": True, "checkpoints": ["a.keras"]},
        "--checkpoints a.keras: this network has layers that Keras lacks",
    ),
]
Front = Callable[[str, dict[str, Any]], str]


class InThisProcess(Child):
    """Makes doctor's calls here."""

    def __init__(self, job: Job) -> None:
        module, _, name = job.path.partition(":")
        self._call = getattr(importlib.import_module(module), name), job.arguments

    def receive(self, until: float) -> Outcome:
        function, arguments = self._call
        try:
            return Outcome(function(*arguments))
        except UserError as error:
            return Outcome(failure=str(error), is_advice=True)

    def __exit__(self, *error: object) -> None:
        """End nothing."""


def started(*arguments: Any, **more: Any) -> Any:
    raise AssertionError("it was not refused")


def untouched(name: str) -> Any:
    """Stand for the attributes of a package that isn't to be used."""
    raise AttributeError(name) if name.startswith("__") else AssertionError(name)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files that cases name, once; tests have links to them."""
    folder = tmp_path_factory.mktemp("written")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, written: Path) -> None:
    fit = training_run.run_session

    def without_start(algorithm: Any, config: Any, signals: Any, *more: Any, **kw: Any):
        return fit(algorithm, config, signals, started, *more[1:], **kw)

    monkeypatch.setattr(training_run, "run_session", without_start)
    monkeypatch.setattr(examination.Child, "start", InThisProcess)
    monkeypatch.setattr(own_loop, "LocalDriver", started)
    monkeypatch.setattr(seeds, "_plan", started)
    monkeypatch.setattr(tuning, "_run_trials", started)
    for name in ("tensorflow", "ray"):
        package = ModuleType(name)
        package.__spec__ = importlib.util.find_spec(name)
        package.__getattr__ = untouched  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of a user's module
    for name in FILES:
        Path(name).hardlink_to(written / name)


def words(settings: Mapping[str, Any]) -> list[str]:
    """Return the flags of a command line with these settings."""
    found: list[str] = []
    for name, value in settings.items():
        values = value if isinstance(value, list) else [value]
        written = flag(f"no_{name}" if value is False else name)
        found += [written, *(str(x) for x in values if not isinstance(x, bool))]
    return found


def command(*line: str) -> Front:
    """Return a command of the command line; it returns what it prints."""

    def call(agent: str, settings: dict[str, Any]) -> str:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = cli.run([*line, agent, *words(settings)])
        assert code == 2, said.getvalue()
        return said.getvalue().replace("xagents-ray: ", "")

    return call


def function(call: Callable[..., Any]) -> Front:
    """Return a function of Python's; it returns the message of its UserError."""

    def refused(agent: str, settings: dict[str, Any]) -> str:
        with pytest.raises(UserError) as error:
            call(agent, **settings)
        return str(error.value)

    return refused


def with_seeds(agent: str, settings: dict[str, Any]) -> str:
    return command("train")(agent, {"seeds": [1, 2], **settings})


def tune(agent: str, settings: dict[str, Any]) -> str:
    shared = {n: value for n, value in settings.items() if n != "max_steps"}
    return command("tune")(agent, {**shared, "trial_steps": 9})


FRONTS: dict[str, Front] = {
    "train": command("train"),
    "train --seeds": with_seeds,
    "tune": tune,
    "doctor": command("doctor"),
    "launch": command("launch", "docker", "-o", "x", "--", "train"),
    "xagents_ray.train": function(xagents_ray.train),
    "Agent": function(xagents_ray.Agent),
}
NEED_NO_END = ("tune", "doctor", "Agent")  # --trial-steps is that of a trial


def own_sentences(front: str, agent: str, settings: Mapping[str, Any]) -> set[str]:
    """Return what a way to ask says of settings that it lacks altogether."""
    found = set[str]()
    if agent not in ALGORITHMS:
        return found
    config = find_algorithm(agent).config
    loop = {each.name for each in (*options(EnvConfig), *options(config))}
    given = [o for o in train_options(config) if settings.get(o.name) is not None]
    for each in given:
        if front == "tune" and each.instead and each.name != "max_steps":
            found.add(f"{each.flag} isn't a setting of tune: {each.instead}.")
        if front == "train --seeds" and each.not_with_seeds:
            why = each.not_with_seeds
            found.add(f"{each.flag} can't be given with --seeds: {why}.")
        if front == "launch" and each.not_launched:
            found.add(f"{each.flag} {each.not_launched}: leave it out.")
        is_of_loop = (each.name in loop or each.own_loop) and not each.needs_ray
        if front == "Agent" and not is_of_loop:
            why = "is for runs and does nothing in a loop of your own"
            found.add(f"{each.flag} {why}: leave it out, or use train.")
    return found


def whole(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a case; make the run that they resume."""
    if "resume" in own and not Path(RUN).exists():
        shutil.copytree(STORED, RUN)
        shutil.copytree(STORED, NEW, ignore=shutil.ignore_patterns("checkpoints"))
    settings = {**({} if "resume" in own else BASE), **own}
    return {name: value for name, value in settings.items() if value is not None}


def check(front: str, case: Case) -> None:
    """Check that a way to ask refuses a case in the words of Python's `train`.

    These name arguments and the command line flags.
    """
    agent, own, part = case
    if part.startswith("Training needs an end") and front in NEED_NO_END:
        return
    if part.startswith("--worker-env applies") and front == "tune":
        return  # trials run on Ray, even local ones
    settings = whole(own)
    files = sorted(Path().rglob("*"))
    reference = FRONTS["xagents_ray.train"](agent, settings)
    assert all(as_arguments(each) in reference for each in part.split(" … "))
    assert "\n" not in reference
    said = as_arguments(" ".join(FRONTS[front](agent, settings).split()))
    expected = own_sentences(front, agent, settings) or {reference}
    if front == "doctor" and case in MADE:  # it is in the table of what was made
        assert " ".join(reference.split()) in said
    else:
        assert said in {" ".join(as_arguments(each).split()) for each in expected}
    assert [p for p in sorted(Path().rglob("*")) if p.name != ".lock"] == files


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("case", ASKED, ids=lambda case: case[2][:40])
def test_what_is_refused_of_settings(front: str, case: Case) -> None:
    check(front, case)


@pytest.mark.parametrize("front", ["xagents_ray.train", "Agent"])
@pytest.mark.parametrize("case", NAMED, ids=lambda case: case[2][:40])
def test_what_is_refused_of_python(front: str, case: Case) -> None:
    check(front, case)


@pytest.mark.parametrize("front", [name for name in FRONTS if name != "launch"])
@pytest.mark.parametrize("case", MADE, ids=lambda case: case[2][:40])
def test_what_is_refused_of_environments(front: str, case: Case) -> None:
    check(front, case)


def sentences_of(path: Path) -> Iterator[str]:
    """Yield the longest constant part of each sentence of a UserError in a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
            parts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
            texts = [x.strip() for x in parts if isinstance(x, str)]
            if texts:
                yield max(texts, key=len)


SOURCES = [
    *(ROOT / "xagents_ray/settings").glob("*.py"),
    *(ROOT / "xagents_ray/algorithms").rglob("*.py"),
    *(ROOT / "xagents_ray/run").glob("*.py"),
    ROOT / "xagents_ray/watch/callbacks.py",
    ROOT / "xagents_ray/core/user_code.py",
]
ELSEWHERE = {
    "needs more memory than this machine": "tests/commands/test_commands.py",
    "sequences, more than this": "tests/cluster/run/test_object_store.py",
    "is not one of keras.optimizers": "tests/learners/test_optimizer.py, with Keras",
    "its learning rate is a schedule": "tests/learners/test_optimizer.py, with Keras",
    "--separate-networks copies the layers": "of a Keras model",
    "--dueling, --noisy and --distributional change": "of a Keras model",
    "is a Keras model: drop --layer-norm": "of a Keras model",
    "is a Keras model: give a .cfg file": "of a Keras model",
    "lacks what a run needs to resume": "of a damaged checkpoint",
    "is not an Algorithm of xagents_ray.extend": "of register",
    "names no agent: add a line such as": "tests/run/test_config_file.py",
    "can't be part of a file: give it": "tests/run/test_config_file.py",
    "--her gives single transitions other goals": "tests/learners/test_sequences.py",
    "The algorithm": "of register",
    "A schedule's function takes": "tests/settings/test_from_python.py",
    "An agent is given by its name": "tests/settings/test_config.py",
    "try again when the machine is less busy": "of a slow machine",
    "outside of the run's directory: put": "tests/run/test_session.py",
    "shares memory as only Linux does": "tests/learners/test_inference_server.py",
    "needs onnx and onnxruntime: pip": "tests/networks/test_onnx_trunk.py",
    "--n-learners shares updates of the algorithms": "tests/run/test_suitability.py",
    ": give a text or a Path, as a result's": "tests/commands/test_plotting.py",
}


def test_every_refusal_is_a_case() -> None:
    said = [
        FRONTS["xagents_ray.train"](agent, whole(own))
        for agent, own, _ in (*ASKED, *NAMED, *MADE)
    ]
    known = {as_arguments(x) for path in SOURCES for x in sentences_of(path)}
    assert len(known) > 50
    unknown = {each for each in known if not any(each in one for one in said)}
    left = {
        each for each in unknown if not any(as_arguments(x) in each for x in ELSEWHERE)
    }
    assert sorted(left) == []
    assert len(unknown) - len(left) == len(ELSEWHERE)
