"""Exports a policy as an ONNX model from observations to the actions of `predict`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.files import replace_bytes
from xagents_ray.core.moments import CLIP_RANGE, OBSERVATION, STD_EPSILON
from xagents_ray.core.spec import FORBIDDEN, VECTOR, EnvSpec
from xagents_ray.core.trajectory import ACTION_MASKS, Array, FloatArray
from xagents_ray.core.version import __version__
from xagents_ray.networks.inputs import InputArray
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx import OnnxGraph
from xagents_ray.networks.recurrent import Recurrent

_SAMPLES = 3
"""Number of observations on which the model's and the policy's actions are compared."""

_PREFIX = "observation/"
"""Begin of the names of inputs for named parts of an observation."""
_STATE, _NEXT_STATE = "state", "next_state"
"""Names of input and output for the state of recurrent layers."""

Given = Sequence[tuple[str, Any, tuple[int, ...]]]
"""Name and dtype of each of a model's inputs, and its shape without the batch."""

Spaces = tuple[Any, Any]
"""Spaces of the observations and of the actions."""


def build_onnx(
    run: RunSpec, arrays: Mapping[str, FloatArray], actor: Any, spaces: Spaces
) -> Any:
    """Return the policy of a run as an `onnx.ModelProto`; see `Policy.export`.

    Args:
        run: the run, for the environment's spec, the network and the names.
        arrays: arrays of the network, and observation statistics, by name.
        actor: the NumPy policy, for its treatment of continuous actions.
        spaces: spaces of observations and of actions.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise UserError(
            "To export a policy, install the package onnx: pip install onnx."
        ) from None
    observations, actions = spaces
    graph = OnnxGraph()
    given = _given(run, observations)
    outputs, state = _network(graph, run, given, arrays)
    best, more = outputs, list[tuple[str, Any, tuple[int, ...]]]()
    if run.spec.has_action_masks:
        more = [(ACTION_MASKS, np.bool_, (run.spec.action_units,))]
        best = graph.add("Where", ACTION_MASKS, outputs, np.float32(FORBIDDEN))
    action = _action(graph, best, actor, actions, run.spec)
    units = run.layout.layers[run.layout.outputs[0]].output_shape
    results = {
        "action": (action, actions.dtype, actions.shape),
        "output": (outputs, np.float32, units),
    }
    if state:
        form = np.float32, (run.layout.state_units,)
        more.append((_STATE, *form))
        results[_NEXT_STATE] = (state, *form)
    about = f"{run.algorithm.name} of {run.config.env.env}"
    return graph.model(
        [*given, *more],
        results,
        doc_string=about,
        producer_name="xagents-ray",
        producer_version=__version__,
    )


def check_actions(
    model: Any, run: RunSpec, predict: Callable[..., tuple[Array, Array | None]]
) -> None:
    """Raise UserError when a model's actions differ from those of its policy.

    Policies of other packages may define greedy actions differently.

    Args:
        model: the ONNX model.
        run: the run whose policy it is.
        predict: the policy's `predict`.
    """
    from onnx.reference import ReferenceEvaluator

    generator = np.random.default_rng(0)
    given = {each.name: _sample(each, generator) for each in model.graph.input}
    masks, state = None, given.get(_STATE)
    if ACTION_MASKS in given:
        masks = given[ACTION_MASKS] = _some_masks(run.spec)
    with np.errstate(all="ignore"):
        actions = ReferenceEvaluator(model).run(["action"], given)[0]
    rest = {n: x for n, x in given.items() if n not in (ACTION_MASKS, _STATE)}
    named = {n.removeprefix(_PREFIX): x for n, x in rest.items()}
    batch = rest.get("observation", named)  # without a prefix where it is one array
    widths = np.subtract(run.spec.action_high, run.spec.action_low)
    widest = np.max(widths, initial=1, where=np.isfinite(widths))
    expected, _ = predict(batch, state, action_masks=masks)
    if not np.allclose(actions, expected, rtol=1e-4, atol=1e-4 * widest):
        raise UserError(
            f"{run.algorithm.name} can't be exported: its {run.algorithm.policy} "
            "doesn't act by the largest output or by means within the bounds; take "
            "to_keras() and choose actions yourself."
        )


def write_onnx(model: Any, path: Path) -> None:
    """Write a model to a file; UserError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(path, model.SerializeToString())
    except OSError as error:
        raise UserError(
            f"{path} can't be written ({error.strerror}): choose a path that can be."
        ) from None


def _given(run: RunSpec, observations: Any) -> Given:
    """Return the model's inputs, given the space of observations.

    They are named parts if there are several arrays or critic inputs, which are left
    out.
    """
    spec, unread = run.spec, run.config.algorithm.unread_inputs
    if not (spec.has_several_arrays or unread):
        return [("observation", spec.observation_dtype, observations.shape)]
    given: list[tuple[str, Any, tuple[int, ...]]] = []
    for each in spec.inputs:
        if each.name in unread:
            continue
        dtype, shape = spec.observation_dtype, each.shape
        if each.is_image:
            dtype, shape = "uint8", observations[each.name].shape
        given.append((_PREFIX + each.name, dtype, shape))
    return given


def _sample(given: Any, generator: np.random.Generator) -> Array:
    """Return a batch of random numbers for an input of a model."""
    from onnx.helper import tensor_dtype_to_np_dtype

    tensor = given.type.tensor_type
    shape = [_SAMPLES, *(each.dim_value for each in tensor.shape.dim[1:])]
    if tensor_dtype_to_np_dtype(tensor.elem_type) == np.uint8:
        return generator.integers(256, size=shape, dtype=np.uint8)
    return generator.normal(size=shape).astype(np.float32)


def _some_masks(spec: EnvSpec) -> Array:
    """Return masks that forbid the first action, where there are several."""
    sizes = np.array(spec.action_sizes or (spec.n_actions,))
    masks = np.ones((_SAMPLES, spec.action_units), np.bool_)
    masks[:, (np.cumsum(sizes) - sizes)[sizes > 1]] = False
    return masks


def _input(
    graph: OnnxGraph,
    run: RunSpec,
    array: InputArray,
    given: Given,
    arrays: Mapping[str, FloatArray],
) -> str:
    """Add the conversion of observations to an array of the network's input."""
    spec, frame = run.spec, run.spec.observation_shape
    x, is_image = _PREFIX + array.name, len(array.shape) == 3
    if not array.name:
        x = given[0][0]
    if array.name == VECTOR or (not is_image and given[0][0] != "observation"):
        x = _joined(graph, spec, given)
    if is_image:
        frame = spec.arrays[array.name][1] if array.name else frame
        frames = np.array([0, spec.stack, *frame])
        x = graph.add("Reshape", x, frames)
        channels = range(4, len(frames))
        x = graph.add("Transpose", x, perm=[0, 2, 3, 1, *channels])
    x = graph.add("Reshape", x, np.array([0, *array.shape]))
    x = graph.cast(x, np.float32)
    if is_image or f"{OBSERVATION}/mean" not in arrays:
        return x if array.scale == 1 else graph.add("Mul", x, np.float32(array.scale))
    mean = arrays[f"{OBSERVATION}/mean"]
    scale = 1 / np.sqrt(arrays[f"{OBSERVATION}/variance"] + STD_EPSILON)
    # Two float32 numbers are as exact as one float64, which some runtimes lack.
    nearest = mean.astype(np.float32)
    x = graph.add("Sub", x, nearest)
    x = graph.add("Sub", x, (mean - nearest).astype(np.float32))
    x = graph.add("Mul", x, scale.astype(np.float32))
    return graph.add("Clip", x, np.float32(-CLIP_RANGE), np.float32(CLIP_RANGE))


def _joined(graph: OnnxGraph, spec: EnvSpec, given: Given) -> str:
    """Add the vectors of named parts, joined; those that are not given are zeros."""
    names = {name for name, _, _ in given}
    vectors = [each for each in spec.inputs if not each.is_image]
    known = {
        each.name: graph.cast(_PREFIX + each.name, np.float32)
        for each in vectors
        if _PREFIX + each.name in names
    }
    first, size = next((known[x.name], x.shape[0]) for x in vectors if x.name in known)
    parts = [
        known[each.name]
        if each.name in known
        else graph.add("MatMul", first, np.zeros((size, *each.shape), np.float32))
        for each in vectors
    ]
    return graph.add("Concat", *parts, axis=-1)


def _network(
    graph: OnnxGraph, run: RunSpec, given: Given, arrays: Mapping[str, FloatArray]
) -> tuple[str, str]:
    """Add the layers of the first output, which has the actions.

    Returns:
        Names of the output and of the next state; "" without memory.
    """
    layout = run.layout
    states = dict[int, str]()

    @functools.cache
    def output_of(i: int) -> str:
        if i < 0:
            return _input(graph, run, layout.arrays[-1 - i], given, arrays)
        layer = layout.layers[i]
        read = output_of(layer.source)
        if layer.more_sources:
            more = map(output_of, layer.more_sources)
            read = graph.add("Concat", read, *more, axis=-1)
        if not isinstance(layer, Recurrent):
            return layer.onnx(graph, read, arrays)
        y, states[i] = layer.onnx_step(graph, read, _state_of(graph, layout, i), arrays)
        return y

    output = output_of(layout.outputs[0])
    if not layout.state_units:
        return output, ""
    places = enumerate(layout.state_places)
    # Layers that only values depend on keep their state.
    parts = [states.get(i) or _state_of(graph, layout, i) for i, at in places if at]
    joined = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
    return output, joined


def _state_of(graph: OnnxGraph, layout: Layout, index: int) -> str:
    """Add a recurrent layer's part of the state; return its name."""
    place = layout.state_places[index]
    assert place is not None
    begin, end = np.array([place.start]), np.array([place.stop])
    return graph.add("Slice", _STATE, begin, end, np.array([1]))


def _action(
    graph: OnnxGraph, outputs: str, actor: Any, space: Any, spec: EnvSpec
) -> str:
    """Add the conversion of the network's output to greedy actions."""
    if spec.action_sizes:
        return _several_actions(graph, outputs, space, spec.action_sizes)
    if spec.is_discrete:
        action = graph.add("ArgMax", outputs, axis=-1, keepdims=0)
        action = graph.add("Add", action, np.asarray(space.start, np.int64))
        return graph.cast(action, space.dtype)
    if actor.squashes_actions:
        outputs = graph.add("Tanh", outputs)
    if actor.scales_actions:
        outputs = _scaled(graph, outputs, spec)
    if space.dtype.kind in "biu":
        low, high = (np.asarray(x, np.float64) for x in (space.low, space.high))
        nearest = graph.add("Round", graph.cast(outputs, np.float64))
        inside = graph.add("Min", graph.add("Max", nearest, low), high)
        return graph.cast(inside, space.dtype)
    action = graph.cast(outputs, space.dtype)
    return graph.add("Min", graph.add("Max", action, space.low), space.high)


def _scaled(graph: OnnxGraph, outputs: str, spec: EnvSpec) -> str:
    """Add the scaling of components with two finite bounds from [-1, 1] to these."""
    is_bounded = np.array(spec.is_bounded)
    low, high = (
        np.where(is_bounded, x, 0).astype(np.float32)
        for x in (spec.action_low, spec.action_high)
    )
    one, half = np.float32(1), np.float32(0.5)
    inside = graph.add("Clip", outputs, -one, one)
    part = graph.add("Mul", graph.add("Add", inside, one), half)
    rest = graph.add("Sub", one, part)
    scaled = graph.add("Add", graph.add("Mul", rest, low), graph.add("Mul", part, high))
    return graph.add("Where", is_bounded, scaled, outputs)


def _several_actions(
    graph: OnnxGraph, outputs: str, space: Any, sizes: tuple[int, ...]
) -> str:
    """Add the conversion of logits to several discrete actions."""
    ends = np.cumsum(sizes)
    parts = [
        graph.add("Slice", outputs, np.array([a]), np.array([b]), np.array([1]))
        for a, b in zip(ends - sizes, ends, strict=True)
    ]
    found = [graph.add("ArgMax", part, axis=-1, keepdims=1) for part in parts]
    action = graph.add("Concat", *found, axis=-1)
    action = graph.add("Reshape", action, np.array([0, *space.shape]))
    start = np.asarray(getattr(space, "start", 0), np.int64)
    return graph.cast(graph.add("Add", action, start), space.dtype)
