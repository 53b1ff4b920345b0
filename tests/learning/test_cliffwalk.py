"""Values follow a rare reward by prioritized replay, and not by uniform sampling."""

import numpy as np
import pytest
from cliffwalk import STATES, every_sequence
from learner_support import make_learner, sampled
from linear import linear_layout

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.replay.transitions import TransitionReplay

SPEC = EnvSpec((STATES,), "float32", 1, 2)
# A batch this large, so that it is not luck when each of the few transitions is drawn.
GAMMA, UPDATES, PHASE, BATCH = 0.95, 5000, 16, 256


def start_value(seed: int, is_prioritized: bool) -> float:
    """Return what the start is worth after the updates; the truth is 1."""
    # With an epsilon this large, Adam takes steps in proportion to gradients.
    config = DQNConfig(
        gamma=GAMMA,
        lr=2.0,
        opt_epsilon=1.0,
        target_sync_steps=1,
        prioritized=is_prioritized,
    )
    learner = make_learner("dqn", config, SPEC, linear_layout(SPEC, 2))
    for model in learner.setup.models.values():
        model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    seen, (*_, alpha) = every_sequence(seed), config.replay.arguments
    size, longest = 2 ** (STATES + 1) - 2, len(seen.rewards)
    replay = TransitionReplay(SPEC, size, 1, longest, seed, 1, GAMMA, alpha=alpha)
    replay.insert(seen)
    assert (replay.fill.size, seen.rewards.sum()) == (size, 1)
    for updates in range(PHASE, UPDATES + 1, PHASE):
        batch = sampled(replay.sample(PHASE, BATCH))
        update = learner.learn(batch, updates, {}, 1).priorities
        if update is not None:
            replay.update(update.rows, update.errors)
    start = np.eye(STATES, dtype=np.float32)[:1]
    return float(learner.setup.models["q"](start)[0, 0]) / GAMMA ** (STATES - 1)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in (2, 3))]
)
def test_priorities_find_a_rare_reward(seed: int) -> None:
    """One of 8,190 transitions is rewarded, 12 steps away from the start."""
    prioritized = start_value(seed, is_prioritized=True)
    uniform = start_value(seed, is_prioritized=False)
    print(f"seed {seed}: prioritized {prioritized:.2f}, uniform {uniform:.2f}")
    assert abs(prioritized - 1) < 0.2
    assert uniform < 0.5
