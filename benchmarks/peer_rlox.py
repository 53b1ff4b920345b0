"""One run of rlox in its own environment: `PYTHON -I benchmarks/peer_rlox.py JSON`.

rlox steps environments in Rust and learns in PyTorch. The argument and the output are
those of `peer.py`. Its policy and value have separate networks with two hidden tanh
layers of equal width; ours share one network.
"""

import importlib
import importlib.metadata
import json
import platform
import sys
import time
from typing import Any

_PACKAGES = ("rlox", "torch", "gymnasium")


def _config(settings: dict[str, Any]) -> dict[str, Any]:
    """Return PPO's hyperparameters by rlox's names."""
    s = settings
    value_clip = s["clip_norm"] if s["clip_value"] is None else s["clip_value"]
    return {
        "n_envs": s["n_envs"],
        "n_steps": s["n_steps"],
        "n_epochs": s["ppo_epochs"],
        "batch_size": s["n_steps"] * s["n_envs"] // s["mini_batches"],
        "learning_rate": s["lr"],
        "clip_eps": s["clip_norm"],
        "clip_vloss": bool(value_clip),
        "vf_coef": s["value_loss_coef"],
        "ent_coef": s["entropy_coef"],
        "max_grad_norm": s["grad_norm"],
        "gamma": s["gamma"],
        "gae_lambda": s["lam"],
        "anneal_lr": False,
    }


def _measure(asked: dict[str, Any]) -> dict[str, float]:
    """Train; return env steps, seconds and updates after the first learning phase."""
    settings, ends = asked["settings"], []
    callbacks = importlib.import_module("rlox.callbacks")
    policies = importlib.import_module("rlox.policies")
    algorithms = importlib.import_module("rlox.algorithms.ppo")

    class Clock(callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_step(self, **facts: Any) -> bool:  # called after each learning phase
            ends.append((time.perf_counter(), facts["step"]))
            return True

    policy = policies.DiscretePolicy(4, 2, hidden=asked["network"]["units"][0])
    model = algorithms.PPO(
        settings["env"], policy=policy, callbacks=[Clock()], **_config(settings)
    )
    model.train(asked["steps"])
    seconds, updates = (
        last - first for first, last in zip(ends[0], ends[-1], strict=True)
    )
    steps = (len(ends) - 1) * settings["n_envs"] * settings["n_steps"]
    return {"env_steps": steps, "seconds": seconds, "updates": updates}


def main() -> None:
    """Perform the run that the first argument describes."""
    asked = json.loads(sys.argv[1])
    torch = importlib.import_module("torch")
    if asked["threads"] is not None:
        torch.set_num_threads(asked["threads"])
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    versions["python"] = platform.python_version()
    print(json.dumps({**_measure(asked), "versions": versions}))


if __name__ == "__main__":
    main()
