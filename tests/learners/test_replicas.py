"""Several learners in one process, each in a thread."""

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from xagents_ray.learners.math.shares import Shares
from xagents_ray.learners.replicas import Replicas


def of_three() -> Replicas:
    def make(shares: Shares) -> Any:
        return SimpleNamespace(shares=shares, state=None)

    return Replicas(make, 3)


def test_a_sum_is_over_all_learners() -> None:
    def total(learner: Any) -> Any:
        rank = tf.constant([10**learner.shares.rank], tf.int64)
        return learner.shares.total(rank).numpy().tolist()

    replicas = of_three()
    assert [replicas.together(total) for _ in range(2)] == [[[111]] * 3] * 2


def test_an_error_of_one_ends_the_sums_of_the_others() -> None:
    def total(learner: Any) -> Any:
        if learner.shares.rank == 1:
            raise ZeroDivisionError
        return tf.function(learner.shares.total)(tf.constant(1.0))

    replicas = of_three()
    with pytest.raises(ZeroDivisionError):
        replicas.together(total)
    assert replicas.together(lambda learner: learner.shares.rank) == [0, 1, 2]
