"""The part of an image network that ONNX Runtime computes for env actors."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.keras_layers import Activation, LayerNorm
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx import OnnxGraph

_KINDS = Activation, Convolutional, Dense, Flatten, LayerNorm
_SECONDS_PER_FLOP = 9e-12
"""What ONNX Runtime saves, compared with NumPy; half of the least that was measured."""
_SESSION_SECONDS, _SECONDS_PER_WEIGHT = 1.5e-3, 4.5e-9
"""What new weights cost: a session, and packing them."""


def is_installed() -> bool:
    """Return whether this Python has ONNX Runtime, and ONNX to describe networks."""
    return all(find_spec(name) for name in ("onnx", "onnxruntime"))


def trunk_places(layout: Layout, rows: float = math.inf) -> list[int]:
    """Return the indices of the layers that ONNX Runtime can compute for acting.

    They are convolutions of uint8 images, and what reads such layers, without noise or
    a state. On other inputs, NumPy is as fast.

    Args:
        layout: the network.
        rows: number of observations on which each version of the weights acts. Layers
            are left out whose weights take longer to pack than those rows save.
    """
    places = list[int]()
    for i, layer in enumerate(layout.layers):
        is_known = type(layer) in _KINDS and not layer.more_sources
        begins = type(layer) is Convolutional and _reads_image(layout, layer.source)
        is_reached = begins or layer.source in places
        if is_known and is_reached and _saved(layer, rows) >= 0:
            places.append(i)
    return places


def trunk_gains(layout: Layout, rows: int) -> bool:
    """Return whether it saves time if each version of the weights acts on some rows.

    Measured with Nature's network on one core, ONNX Runtime 1.32: 9 ms for a version of
    the weights, of which 2 are the convolutions; saved are 0.12 ms a row in batches of
    1, and 0.15 ms in those of 8.
    """
    layers = [layout.layers[i] for i in trunk_places(layout, rows)]
    return sum(_saved(each, rows) for each in layers) > _SESSION_SECONDS


def _saved(layer: Layer, rows: float) -> float:
    """Return the seconds that ONNX Runtime saves a layer per version of its weights."""
    weights = sum(map(math.prod, layer.shapes.values()))
    # Infinitely many rows of a layer without operations would be NaN.
    gain = rows * _SECONDS_PER_FLOP * layer.flops if layer.flops else 0.0
    return gain - _SECONDS_PER_WEIGHT * weights


class OnnxTrunk:
    """ONNX Runtime's sessions for some layers of a network.

    Args:
        layout: the network.
        threads: number of threads.
        rows: see `trunk_places`.
    Attributes:
        places: indices of the layers.
    """

    def __init__(self, layout: Layout, threads: int, rows: float = math.inf) -> None:
        self._layout, self._threads = layout, threads
        self.places = trunk_places(layout, rows)
        readers = [x for i, x in enumerate(layout.layers) if i not in self.places]
        read = {*layout.outputs, *(i for each in readers for i in each.sources)}
        self._ends = [i for i in self.places if i in read]
        sources = {layout.layers[i].source for i in self.places}
        self._images = sorted(-1 - source for source in sources if source < 0)
        self._model: bytes | None = None

    def bind(
        self, arrays: Mapping[str, Array]
    ) -> Callable[[Sequence[Array]], dict[int, FloatArray]]:
        """Return the forward pass with weights.

        Args:
            arrays: float32 weights by name.
        Returns:
            A function that maps the network's input arrays to the outputs of layers
            that others read, by index.
        """
        import onnxruntime

        graph, ends = self._graph(arrays)
        if self._model is None:
            self._model = self._described(graph, ends)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        held = graph.weights
        values = map(onnxruntime.OrtValue.ortvalue_from_numpy, held.values())
        options.add_external_initializers([*held], [*values])
        session = onnxruntime.InferenceSession(
            self._model, options, providers=["CPUExecutionProvider"]
        )

        def trunk(inputs: Sequence[Array]) -> dict[int, FloatArray]:
            given = {str(i): np.ascontiguousarray(inputs[i]) for i in self._images}
            return dict(zip(self._ends, session.run(None, given), strict=True))

        return trunk

    def _graph(self, arrays: Mapping[str, Array]) -> tuple[OnnxGraph, list[str]]:
        """Return the layers as a graph, and the names of the outputs."""
        graph, names = OnnxGraph(), dict[int, str]()
        for i in self._images:
            names[-1 - i] = graph.cast(str(i), np.float32)
        for i in self.places:
            layer = self._layout.layers[i]
            read, own = names[layer.source], arrays
            if layer.source < 0:  # its kernel has fewer numbers than the images
                scale = np.float32(self._layout.arrays[-1 - layer.source].scale)
                kernel = f"{layer.name}/kernel"
                own = {**arrays, kernel: arrays[kernel] * scale}
            names[i] = layer.onnx(graph, read, own)
        return graph, [names[i] for i in self._ends]

    def _described(self, graph: OnnxGraph, ends: Sequence[str]) -> bytes:
        """Return the graph in ONNX's format, without its weights."""
        given = [(str(i), np.uint8, self._layout.arrays[i].shape) for i in self._images]
        results = {
            f"layer {i}": (end, np.float32, self._layout.layers[i].output_shape)
            for i, end in zip(self._ends, ends, strict=True)
        }
        model: Any = graph.model(given, results, holds_weights=False)
        described: bytes = model.SerializeToString()
        return described


def _reads_image(layout: Layout, source: int) -> bool:
    """Return whether a source is an input array of uint8 images."""
    if source >= 0:
        return False
    array = layout.arrays[-1 - source]
    return len(array.shape) == 3 and array.scale != 1
