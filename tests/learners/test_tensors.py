"""Signatures that named tensors give of themselves."""

import numpy as np
import pytest
import tensorflow as tf
from learner_support import fresh, replayed
from linear import SPECS, rollout

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import FRAME_FIELDS, map_arrays
from xagents_ray.learners.tensors import (
    CORRECTED_BATCHES,
    ROLLOUT,
    ROLLOUT_BATCHES,
    SEQUENCE_BATCHES,
    TRANSITION_BATCHES,
    take_rows,
)


def test_a_signature_is_what_the_fields_say() -> None:
    frames = EnvSpec((36, 40, 3), "uint8", 2, 4)
    got = TRANSITION_BATCHES.signature(frames)
    assert got["observations"] == tf.TensorSpec([None] * 3 + [36, 40, 3], tf.uint8)
    assert got["starts"] == tf.TensorSpec([None, None, None], tf.bool)
    assert got["actions"] == tf.TensorSpec([None, None], tf.int32)
    assert got["rewards"] == tf.TensorSpec([None, None], tf.float32)
    version = ROLLOUT.signature(frames)["weights_version"]
    assert version == tf.TensorSpec([], tf.int64)
    probabilities = ROLLOUT_BATCHES.signature(frames)["probabilities"]
    assert probabilities == tf.TensorSpec([None, None, None, 4], tf.float32)
    for reader in (CORRECTED_BATCHES, SEQUENCE_BATCHES):
        rewards = reader.signature(frames)["rewards"]
        assert rewards == tf.TensorSpec([None, None, None], tf.float32)
    versions = CORRECTED_BATCHES.signature(frames)["weights_version"]
    assert versions == tf.TensorSpec([None], tf.int64)


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_a_round_fits_its_signature(spec: EnvSpec) -> None:
    """A network without values gives zeros."""
    made = ROLLOUT.of(fresh(rollout(spec, 1), rollout(spec, 2)))
    tensors, specs = ROLLOUT.tensors(made), ROLLOUT.signature(spec)
    assert tensors.keys() == specs.keys()
    for name, expected in specs.items():
        assert expected.is_compatible_with(tensors[name])
    assert not made.values.any()
    length, width = made.rewards.shape
    assert made.values.shape == (length + 1, width)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_replayed_rounds_become_as_wide_as_the_fresh_one(width: int) -> None:
    """Whether they hold fewer trajectories or more."""
    t = rollout(SPECS["discrete"])._replace(
        probabilities=np.zeros((9, 3, 3), np.float32)
    )
    old = replayed([t])
    columns = np.arange(width) % 3
    old = map_arrays(lambda x: np.take(x, columns, axis=2), old)
    made = ROLLOUT_BATCHES.of(fresh(t, sampled=old))
    others = set(ROLLOUT_BATCHES.fields) - set(FRAME_FIELDS)
    assert {getattr(made, name).shape[:3] for name in others} == {(2, 9, 3)}
    for i, column in enumerate(columns[:3]):
        np.testing.assert_array_equal(made.rewards[1, :, i], t.rewards[:, column])


@pytest.mark.parametrize("shape", [(84, 84, 4), (2, 3, 3), (4,), ()], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_rows_are_taken_whole(shape: tuple[int, ...], dtype: str) -> None:
    """Whether their bytes fill words or not."""
    x = np.random.default_rng(1).integers(0, 256, (5, *shape)).astype(dtype)
    rows = np.array([4, 0, 4, 2], np.int32)
    np.testing.assert_array_equal(take_rows(tf.constant(x), tf.constant(rows)), x[rows])
