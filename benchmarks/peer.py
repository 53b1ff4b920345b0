"""One run of a peer in its own environment: `PYTHON -I benchmarks/peer.py JSON`.

The peers are Stable-Baselines3 (`sb3`), SBX, which is Stable-Baselines3 on JAX, and
sb3-contrib (`contrib`), whose RecurrentPPO has an LSTM. This file doesn't import
xagents-ray. The argument has `library`, `agent`, `network` (`units` and `activation` of
the hidden layers), `settings` by our names, `steps`, `warmup`, `vec` (how environments
are stepped), the number of `threads`, `rollout` (vector steps between learning phases
of an off-policy agent; null for the same as ours) and PyTorch's `device`. The last line
of the output is JSON: env steps, seconds, updates and versions.

Remaining differences: SBX's PPO has separate networks for the policy and the value,
each as large as our shared one, and doesn't clip the value's change; its DQN has hidden
layers of equal width. Stable-Baselines3's DQN computes the gradient's norm even without
clipping. RecurrentPPO's minibatches have parts of sequences, ours whole ones.
"""

import importlib
import importlib.metadata
import json
import math
import platform
import sys
import time
from typing import Any

_PACKAGES = (
    "stable-baselines3",
    "sb3-contrib",
    "torch",
    "sbx-rl",
    "jax",
    "gymnasium",
    "ale-py",
)
_MODULES = {"sb3": "stable_baselines3", "sbx": "sbx", "contrib": "sb3_contrib"}


def _envs(settings: dict[str, Any], vec: str) -> Any:
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import (
        DummyVecEnv,
        SubprocVecEnv,
        VecFrameStack,
    )

    kind = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}[vec]
    env, count = settings["env"], settings["n_envs"]
    if not settings["preprocess"]:
        return make_vec_env(env, count, vec_env_cls=kind)
    # The prefix registers the IDs, also in worker processes.
    envs = make_atari_env(f"ale_py:{env}", count, vec_env_cls=kind)
    return VecFrameStack(envs, settings["frame_stack"])


def _policy(asked: dict[str, Any]) -> dict[str, Any]:
    """Return `policy_kwargs` for our networks and our Adam settings."""
    settings, units = asked["settings"], asked["network"]["units"]
    betas = settings["beta1"], settings["beta2"]
    if asked["library"] == "sbx":
        adam = {"eps": settings["opt_epsilon"], "b1": betas[0], "b2": betas[1]}
        kwargs = {"optimizer_kwargs": adam}
        if settings["preprocess"]:
            own = {"net_arch": units} if asked["agent"] == "dqn" else {}
            return kwargs | own
        flax = importlib.import_module("flax.linen")
        activation = getattr(flax, asked["network"]["activation"])
        return {**kwargs, "net_arch": units, "activation_fn": activation}
    adam = {"eps": settings["opt_epsilon"], "betas": betas}
    kwargs = {"optimizer_kwargs": adam}
    if settings["preprocess"]:
        return {**kwargs, "features_extractor_kwargs": {"features_dim": units[0]}}
    nn = importlib.import_module("torch.nn")
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[asked["network"]["activation"]]
    if "n_steps" not in settings:
        return {**kwargs, "net_arch": units, "activation_fn": activation}
    own = {"units": units, "activation": activation}
    if settings.get("memory"):  # one LSTM for the policy and the value, as ours
        size = int(settings["memory"].partition(":")[2])
        shared = {"shared_lstm": True, "enable_critic_lstm": False}
        kwargs |= {"lstm_hidden_size": size, **shared}
    return {
        **kwargs,
        "net_arch": [],
        "features_extractor_class": _trunk(),
        "features_extractor_kwargs": own,
    }


def _trunk() -> type:
    """Return a feature extractor with the hidden layers that both heads share."""
    from stable_baselines3.common.torch_layers import (
        BaseFeaturesExtractor,
        create_mlp,
    )
    from torch import nn

    class Trunk(BaseFeaturesExtractor):  # type: ignore[misc]
        def __init__(self, space: Any, units: list[int], activation: Any) -> None:
            super().__init__(space, units[-1])
            inputs = math.prod(space.shape)
            layers = create_mlp(inputs, 0, units, activation)
            self._layers = nn.Sequential(nn.Flatten(), *layers)

        def forward(self, observations: Any) -> Any:
            return self._layers(observations)

    return Trunk


def _on_policy(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of A2C or PPO by the peer's names."""
    s = asked["settings"]
    common = {
        "n_steps": s["n_steps"],
        "ent_coef": s["entropy_coef"],
        "vf_coef": s["value_loss_coef"],
        "max_grad_norm": s["grad_norm"],
    }
    if asked["agent"] == "a2c":
        return {**common, "use_rms_prop": False}
    value_clip = s["clip_norm"] if s["clip_value"] is None else s["clip_value"] or None
    if asked["library"] == "sbx":
        value_clip = None  # not supported
    return {
        **common,
        "batch_size": s["n_steps"] * s["n_envs"] // s["mini_batches"],
        "n_epochs": s["ppo_epochs"],
        "gae_lambda": s["lam"],
        "clip_range": s["clip_norm"],
        "clip_range_vf": value_clip,
    }


def _off_policy(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of DQN, DDPG, TD3 or SAC by the peer's names.

    `train_freq` counts vector steps; ours counts env steps of all environments.
    """
    s, agent = asked["settings"], asked["agent"]
    period = s["train_frequency"] // math.gcd(s["train_frequency"], s["n_envs"])
    period *= -(-(asked["rollout"] or s["rollout_length"]) // period)
    common = {
        "buffer_size": s["buffer_max_size"],
        "learning_starts": s["buffer_initial_size"],
        "batch_size": s["buffer_batch_size"],
        "tau": s["tau"],
        "train_freq": period,
        "gradient_steps": period
        * s["n_envs"]
        * s["gradient_steps"]
        // s["train_frequency"],
    }
    if agent == "dqn":
        own = {"max_grad_norm": s["grad_norm"] or math.inf}
        return {
            **common,
            **(own if asked["library"] == "sb3" else {}),
            "target_update_interval": s["target_sync_steps"],
            "exploration_fraction": min(1.0, s["epsilon_decay_steps"] / asked["steps"]),
            "exploration_initial_eps": s["epsilon_start"],
            "exploration_final_eps": s["epsilon_end"],
        }
    if asked["library"] == "sbx":
        common["qf_learning_rate"] = s["critic_lr"] or s["lr"]
    if agent == "ddpg":
        return common
    if agent == "sac":
        return {**common, **_entropy(s)}
    return {
        **common,
        "policy_delay": s["policy_delay"],
        "target_policy_noise": s["policy_noise_coef"],
        "target_noise_clip": s["noise_clip"],
    }


def _entropy(settings: dict[str, Any]) -> dict[str, Any]:
    """Return SAC's entropy hyperparameters by the peer's names."""
    alpha, target = settings["alpha"], settings["target_entropy"]
    return {
        "ent_coef": alpha if alpha == "auto" else float(alpha),
        "target_entropy": "auto" if target is None else target,
    }


def _model(asked: dict[str, Any]) -> Any:
    """Return the peer's agent with its environments."""
    settings, memory = asked["settings"], asked["settings"].get("memory")
    name = f"{'Recurrent' if memory else ''}{asked['agent'].upper()}"
    kind = getattr(importlib.import_module(_MODULES[asked["library"]]), name)
    envs = _envs(settings, asked["vec"])
    own = _on_policy(asked) if "n_steps" in settings else _off_policy(asked)
    if "step_noise_coef" in settings:
        numpy = importlib.import_module("numpy")
        noise = importlib.import_module("stable_baselines3.common.noise")
        size = envs.action_space.shape
        sigma = numpy.full(size, settings["step_noise_coef"])
        own["action_noise"] = noise.NormalActionNoise(numpy.zeros(size), sigma)
    policy = "CnnPolicy" if settings["preprocess"] else "MlpPolicy"
    return kind(
        "MlpLstmPolicy" if memory else policy,
        envs,
        learning_rate=settings["lr"],
        gamma=settings["gamma"],
        policy_kwargs=_policy(asked),
        device=asked["device"],
        **own,
    )


def _measure(model: Any, steps: int, warmup: int) -> dict[str, float]:
    """Train; return env steps, seconds and updates of whole learning cycles."""
    learn, ends = model.train, []

    def timed(*args: Any, **kwargs: Any) -> None:
        learn(*args, **kwargs)
        if model.num_timesteps >= warmup:
            ends.append((model.num_timesteps, time.perf_counter(), model._n_updates))

    model.train = timed
    model.learn(steps)
    if "jax" in sys.modules:  # JAX computes asynchronously
        jax = sys.modules["jax"]
        jax.block_until_ready(jax.live_arrays())
        ends[-1] = ends[-1][0], time.perf_counter(), ends[-1][2]
    model.env.close()
    counts = [last - first for first, last in zip(ends[0], ends[-1], strict=True)]
    return dict(zip(("env_steps", "seconds", "updates"), counts, strict=True))


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def main() -> None:
    """Perform the run that the first argument describes."""
    asked = json.loads(sys.argv[1])
    if asked["threads"] is not None:
        importlib.import_module("torch").set_num_threads(asked["threads"])
    model = _model(asked)
    if asked["library"] != "sbx" and model.device.type != asked["device"]:
        sys.exit(f"PyTorch trains on {model.device.type}, not on {asked['device']}.")
    measured = _measure(model, asked["steps"], asked["warmup"])
    print(json.dumps({**measured, "versions": _versions()}))


if __name__ == "__main__":
    main()
