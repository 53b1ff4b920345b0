"""Trust region steps against explicit matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.math import distributions, trust_region
from xagents_ray.learners.math.flat import assign_flat, concat_flat

RNG = np.random.default_rng(0)
N, D, UNITS, A = 6, 3, 4, 2
INPUTS = RNG.normal(size=(N, D))


def test_flatten_and_assign_are_inverse() -> None:
    values = [np.arange(6.0).reshape(2, 3), np.array(6.0), np.array([7.0, 8.0])]
    variables = [tf.Variable(x) for x in values]
    flat = concat_flat(variables)
    np.testing.assert_array_equal(flat, np.arange(9))
    assign_flat(variables, flat * 2)
    for variable, value in zip(variables, values, strict=True):
        np.testing.assert_array_equal(variable, 2 * value)


class Policy:
    """A network of 3 inputs, 4 tanh units and 2 outputs, in float64."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.variables = [
            tf.Variable(rng.normal(size=shape))
            for shape in ((D, UNITS), (UNITS, A), (A,))
        ]

    def __call__(self) -> tf.Tensor:
        return tf.tanh(INPUTS @ self.variables[0]) @ self.variables[1]

    @property
    def log_std(self) -> Any:
        return self.variables[2]

    def jacobian(self, of: Callable[[], tf.Tensor]) -> Any:
        """Return d outputs / d parameters by finite differences, [..., P]."""
        start, step = concat_flat(self.variables), 1e-6
        columns = []
        for axis in np.eye(len(start)):
            ends = []
            for sign in (1, -1):
                assign_flat(self.variables, start + sign * step * axis)
                ends.append(of().numpy())
            columns.append((ends[0] - ends[1]) / (2 * step))
        assign_flat(self.variables, start)
        return np.stack(columns, axis=-1)


def categorical() -> tuple[Policy, Callable[[], tf.Tensor], Any]:
    """Return a policy, its divergence, and its Fisher matrix by its definition."""
    policy = Policy()
    old = tf.constant(policy())

    def log_probs() -> tf.Tensor:
        return tf.nn.log_softmax(policy())

    scores, p = policy.jacobian(log_probs), np.exp(log_probs())
    fisher = np.einsum("na,nap,naq->pq", p, scores, scores) / N
    return (
        policy,
        lambda: tf.reduce_mean(
            distributions.Categorical(old).kl(distributions.Categorical(policy()))
        ),
        fisher,
    )


def gaussian() -> tuple[Policy, Callable[[], tf.Tensor], Any]:
    policy = Policy()
    old, old_log_std = tf.constant(policy()), tf.constant(policy.log_std)
    jacobian = policy.jacobian(policy.__call__)
    variance = np.exp(2 * old_log_std)
    fisher = np.einsum("nap,naq,a->pq", jacobian, jacobian, 1 / variance) / N
    fisher[-A:, -A:] += 2 * np.eye(A)  # of log_std: that of a Gaussian's deviation
    return (
        policy,
        lambda: tf.reduce_mean(
            distributions.Gaussian(old, old_log_std).kl(
                distributions.Gaussian(policy(), policy.log_std)
            )
        ),
        fisher,
    )


@pytest.mark.parametrize("damping", [0.0, 0.1])
@pytest.mark.parametrize("make", [categorical, gaussian])
def test_fisher_vector_product(make: Any, damping: float) -> None:
    policy, divergence, fisher = make()
    assert float(divergence()) == pytest.approx(0, abs=1e-12)
    size = len(fisher)
    assert np.linalg.matrix_rank(fisher, tol=1e-8) > A
    for vector in (*np.eye(size)[:: size // 5], *RNG.normal(size=(3, size))):
        got = trust_region.fisher_vector_product(
            divergence, policy.variables, tf.constant(vector), damping
        )
        expected = fisher @ vector + damping * vector
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


def positive(size: int, seed: int = 3) -> Any:
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T + 0.1 * np.eye(size)


def times(matrix: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda x: tf.linalg.matvec(tf.constant(matrix), x)


def test_conjugate_gradient_by_hand() -> None:
    """H = diag(1, 4), b = (1, 1): the first step is 2/5 of b, the second is exact."""
    matrix, b = np.diag([1.0, 4.0]), tf.ones(2, tf.float64)
    for iterations, expected in ((1, (0.4, 0.4)), (2, (1, 0.25)), (9, (1, 0.25))):
        got = trust_region.conjugate_gradient(times(matrix), b, iterations, 1e-20)
        np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_conjugate_gradient_against_a_solver(size: int) -> None:
    matrix, b = positive(size), RNG.normal(size=size)
    got = trust_region.conjugate_gradient(times(matrix), tf.constant(b), 3 * size, 0)
    np.testing.assert_allclose(got, np.linalg.solve(matrix, b), rtol=1e-6)


def test_conjugate_gradient_stops_at_its_tolerance() -> None:
    matrix, b = positive(7), tf.constant(RNG.normal(size=7))
    calls = []

    def product(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return times(matrix)(x)

    loose = float(tf.reduce_sum(b * b)) / 4
    got = trust_region.conjugate_gradient(product, b, 50, loose)
    residual = b - times(matrix)(got)
    assert 0 < float(tf.reduce_sum(residual**2)) <= loose
    assert len(calls) < 7
    calls.clear()
    np.testing.assert_array_equal(
        trust_region.conjugate_gradient(product, b, 50, 1e9), np.zeros(7)
    )
    assert not calls


@pytest.mark.parametrize("tolerance", [0.0, 1e-10])
def test_conjugate_gradient_of_flat_directions(tolerance: float) -> None:
    """No curvature where the gradient points: no division by zero."""
    b = tf.constant([1.0, 1.0])
    got = trust_region.conjugate_gradient(tf.zeros_like, b, 10, tolerance)
    np.testing.assert_array_equal(got, [0, 0])
    got = trust_region.conjugate_gradient(tf.identity, tf.zeros(2), 10, tolerance)
    np.testing.assert_array_equal(got, [0, 0])


@pytest.mark.parametrize("max_kl", [0.01, 2.0])
def test_natural_step(max_kl: float) -> None:
    """Along the solution, and as long as the trust region allows."""
    matrix, gradient = positive(5), RNG.normal(size=5)
    step = trust_region.natural_step(
        times(matrix), tf.constant(gradient), max_kl, 20, 0
    ).numpy()
    assert 0.5 * step @ matrix @ step == pytest.approx(max_kl, rel=1e-9)
    solution = np.linalg.solve(matrix, gradient)
    np.testing.assert_allclose(
        step / np.linalg.norm(step), solution / np.linalg.norm(solution), rtol=1e-6
    )


def test_natural_step_by_hand() -> None:
    # H = diag(1, 4), g = (1, 1): x = (1, 1/4), ½ xᵀHx = 5/8; half of it: √(4/5) x.
    step = trust_region.natural_step(
        times(np.diag([1.0, 4.0])), tf.ones(2, tf.float64), 0.5, 10, 1e-20
    )
    np.testing.assert_allclose(step, np.sqrt(0.8) * np.array([1, 0.25]), rtol=1e-9)
    none = trust_region.natural_step(tf.zeros_like, tf.ones(2), 0.5, 10, 1e-10)
    np.testing.assert_array_equal(none, [0, 0])


# Points are 10 + 8 * part; what each try reaches: gain and divergence.
START, STEP = tf.constant([10.0, 20.0]), tf.constant([8.0, -8.0])
NAN, INF = float("nan"), float("inf")
SEARCHES = {
    "the whole step": ([(1.1, 0.01)], 1.0),
    "no gain at first": ([(1.0, 0.01), (0.9, 0.01), (1.1, 0.01)], 0.25),
    "too far at first": ([(9.0, 0.0151), (8.0, 0.015)], 0.5),
    "nowhere": ([(0.9, 0.0)] * 4, 0.0),
    "all too far": ([(2.0, 1.0)] * 4, 0.0),
    "not a number": ([(NAN, 0.0), (2.0, NAN), (1.1, 0.0)], 0.25),
    "infinite": ([(INF, 0.0), (2.0, INF), (1.1, 0.0)], 0.25),
    "too late": ([(0.0, 0.0)] * 4 + [(2.0, 0.0)], 0.0),
}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(("tries", "part"), SEARCHES.values(), ids=list(SEARCHES))
def test_line_search(tries: Any, part: float, in_graph: bool) -> None:
    answers = tf.constant(tries)
    tried = tf.Variable(0)

    def evaluate(parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        halves = tf.cast(tried, tf.float32)
        tf.debugging.assert_near(parameters, START + STEP * 0.5**halves)
        answer = answers[tried]
        tried.assign_add(1)
        return answer[0], answer[1]

    def search() -> tuple[tf.Tensor, tf.Tensor]:
        return trust_region.line_search(
            evaluate, START, STEP, tf.constant(1.0), 0.01, 4
        )

    end, taken = tf.function(search)() if in_graph else search()
    assert float(taken) == part
    np.testing.assert_allclose(end, START + part * STEP)
    stopped = len(tries) if part else 4
    assert int(tried) == stopped


def test_line_search_along_no_number() -> None:
    def evaluate(parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.reduce_sum(parameters), tf.constant(0.0)

    limits = tf.constant(1.0), 0.01, 4
    end, taken = trust_region.line_search(evaluate, START, START * NAN, *limits)
    assert float(taken) == 0
    np.testing.assert_array_equal(end, START)


def test_a_step_in_the_graph_equals_one_outside() -> None:
    matrix, gradient = positive(5), tf.constant(RNG.normal(size=5))

    def step() -> tf.Tensor:
        return trust_region.natural_step(times(matrix), gradient, 0.01, 3, 1e-10)

    np.testing.assert_allclose(tf.function(step)(), step(), rtol=1e-12)
