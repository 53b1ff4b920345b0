"""One of several learners that update a network; prints its medians in ms."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from xagents_ray.algorithms.run_spec import Threads
from xagents_ray.learners import runtime
from xagents_ray.learners.math.flat import concat_flat
from xagents_ray.learners.math.shares import ALONE
from xagents_ray.learners.optimizer import FusedAdam, gradient_step
from xagents_ray.learners.peers import join

_RUNS = 15
_INPUTS = 8


def main() -> None:
    """Measure what the argument, as JSON, asks for."""
    asked = json.loads(sys.argv[1])
    runtime.configure(Threads(1, 1), deterministic=False)
    addresses = asked["addresses"]
    shares = join(asked["rank"], addresses) if len(addresses) > 1 else ALONE
    dense, width = keras.layers.Dense, asked["width"]
    layers = [dense(width, "relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((_INPUTS,)), *layers, dense(1)])
    network = shares.network(model, has_memory=False)
    variables = network.trainable_variables
    optimizer = FusedAdam(1e-4)
    optimizer.build(variables)
    inputs = tf.random.stateless_uniform([asked["rows"], _INPUTS], [1, 2])
    gradient = concat_flat([tf.zeros_like(x) for x in variables])

    def update() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(inputs)))
        return gradient_step(optimizer, tape, loss, variables, 1.0, shares)

    found = {
        "parameters": int(tf.size(gradient)),
        "sum_ms": _median(tf.function(lambda: shares.total(gradient)[0])),
        "update_ms": _median(tf.function(update, autograph=False)),
    }
    print(json.dumps(found))


def _median(run: Callable[[], Any]) -> float:
    """Return the median time of a graph that returns one number."""
    run().numpy()
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        run().numpy()
        times.append(time.perf_counter() - began)
    return 1_000 * statistics.median(times)


if __name__ == "__main__":
    main()
