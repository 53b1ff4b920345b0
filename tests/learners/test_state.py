"""A learner's state as a checkpoint has it."""

import numpy as np
import pytest
from learner_support import make_learner

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.state import COUNT


def test_counters_that_a_checkpoint_lacks_become_0() -> None:
    config = find_algorithm("a2c").config()
    state = make_learner("a2c", config, EnvSpec((4,), "float32", 1, 2)).state
    counters = [name for name in state.variables if name.startswith(COUNT)]
    assert counters
    state.assign(dict.fromkeys(counters, np.array(7, np.int64)))
    arrays = state.arrays()
    state.restore({name: arrays[name] for name in arrays if name not in counters})
    after = state.arrays()
    assert [int(after[name]) for name in counters] == [0] * len(counters)
    assert after.keys() == arrays.keys()

    of_model = {name for name in arrays if name.startswith("policy/")}
    assert state.arrays(["policy"]).keys() == of_model < arrays.keys()

    assert arrays["lr-scale"] == 1
    rate = state.scale_lr(1.0)
    state.decay_lr(0.5)
    assert state.scale_lr(1.0) == pytest.approx(rate / 2)

    weights = min(arrays.keys() - counters)
    with pytest.raises(UserError, match=f"has no {weights}: it is of another agent"):
        state.restore({name: arrays[name] for name in arrays if name != weights})
