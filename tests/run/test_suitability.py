"""Settings that don't suit an algorithm of the user's own."""

import dataclasses

import pytest

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.errors import UserError
from xagents_ray.run.suitability import check_shared
from xagents_ray.settings.config import Config


def test_updates_of_own_algorithms_are_not_shared() -> None:
    ppo = ALGORITHMS["ppo"]
    config = Config.of(ppo.config, {"env": "CartPole-v1", "n_learners": 2})
    check_shared(ppo, config)
    for learner in ("own_algorithm.learner:Own", type("Own", (), {})):
        own = dataclasses.replace(ppo, name="own", learner=learner)
        with pytest.raises(UserError, match="and own is your own: leave it out"):
            check_shared(own, config)
