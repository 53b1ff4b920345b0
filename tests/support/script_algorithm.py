"""An algorithm as a script has it, in `__main__`: learner, policy, replay, layer."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import xagents_ray
from xagents_ray.actors.policies.exploring import EpsilonGreedyPolicy
from xagents_ray.extend import Layer, TransitionReplay, find_algorithm
from xagents_ray.learners.dqn import DQN

SEEN = Path("seen").absolute()


class OwnLearner:
    """DQN, which says that it learns."""

    def __init__(self, setup: Any) -> None:
        (SEEN / "learner").touch()
        self._dqn = DQN(setup)
        self.data = self._dqn.data

    def learn(self, batches, phase):  # type: ignore[no-untyped-def]
        return self._dqn.learn(batches, phase)


class OwnReplay(TransitionReplay):
    """Says that it is sampled from."""

    def sample(self, batches: int, batch_size: int) -> Any:
        (SEEN / "replay").touch()
        return super().sample(batches, batch_size)


class OwnPolicy(EpsilonGreedyPolicy):
    """Says that it acts."""

    def act(self, *arguments: Any) -> Any:
        (SEEN / "policy").touch()
        return super().act(*arguments)


@dataclass(frozen=True, kw_only=True)
class Scale(Layer):
    """Multiplies by learned numbers."""

    @classmethod
    def read(cls, section: Any, source: int, shape: Any, units: Any) -> "Scale":
        return cls(name=section.name, source=source, output_shape=shape)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"{self.name}/factors": self.output_shape}

    def bind(self, arrays: Any, scale: float) -> Any:
        factors = arrays[f"{self.name}/factors"] * np.float32(scale)
        return lambda x: x * factors

    def keras(self, layers: Any, initializer: Any) -> Any:
        class Factors(layers.Layer):  # type: ignore[misc]
            def build(self, shape):  # type: ignore[no-untyped-def]
                self.factors = self.add_weight(shape[1:], "ones", name="factors")

            def call(self, x):  # type: ignore[no-untyped-def]
                return x * self.factors

        return Factors(name=self.name)


xagents_ray.register_layer("scale", Scale)
xagents_ray.register(
    replace(
        find_algorithm("dqn"),
        name="own-dqn",
        learner=OwnLearner,
        policy=OwnPolicy,
        replay=OwnReplay,
    )
)
