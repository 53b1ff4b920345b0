"""The kinds of layers in .cfg files: built-in ones and plugins."""

import functools
from collections.abc import Mapping
from typing import Any

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import load_plugins
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer
from xagents_ray.networks.recurrent import GRU, LSTM
from xagents_ray.networks.section import INITIALIZERS, keras_initializer

BUILT_IN_KINDS: dict[str, type[Layer]] = {
    "convolutional": Convolutional,
    "dense": Dense,
    "flatten": Flatten,
    "gru": GRU,
    "lstm": LSTM,
}
"""The built-in kinds of layers, by their names in .cfg sections."""
LAYER_ENTRY_POINTS = "xagents_ray.layers"
"""Entry-point group for kinds of layers, `scale = own_package.layers:Scale`."""


def register_layer(kind: str, layer: type[Layer]) -> None:
    """Register a kind of layer for .cfg files: `[scale-0]` is of the kind `scale`.

    For the command line, a package declares the kind as an entry point in the group
    `xagents_ray.layers`, with the same name. Registering a kind again replaces it, so a
    notebook cell can run again.

    Args:
        kind: name of the kind, letters only.
        layer: a subclass of `Layer`. The Keras layer that its `keras` returns must name
            its weights as `shapes` does. Policies with the layer can be exported if it
            has a method `onnx`.
    Raises:
        UserError: the kind is built in, or the class is not a layer.
    Example:
        >>> from xagents_ray.extend import Layer, Section, register_layer
        >>> class Identity(Layer):
        ...     def bind(self, arrays, scale):
        ...         return lambda x: x * scale
        ...
        ...     def keras(self, layers, initializer):
        ...         return layers.Identity(name=self.name)
        ...
        ...     @classmethod
        ...     def read(cls, section, source, shape, units):
        ...         return cls(name=section.name, source=source, output_shape=shape)
        >>> register_layer("identity", Identity)
    """
    if not (isinstance(layer, type) and issubclass(layer, Layer)):
        raise UserError(f"The layer {kind!r} must be a class that extends Layer.")
    if not kind.isalpha() or kind in BUILT_IN_KINDS:
        raise UserError(f"A layer can't be named {kind!r}: choose another word.")
    objects.keep("layer", layer, kind)


def register_initializer(name: str, initializer: Any) -> None:
    """Register a kernel initializer for .cfg files, as in `initializer=tiny`.

    Keras' own are known by their names. Registering a name again replaces it. The
    learner of a run on Ray gets it too. A later process registers it again before it
    reads the file, to load or resume a run; so the command line can't.

    Args:
        name: name of the initializer.
        initializer: a Keras initializer, or a class or function that makes one, which
            may take `gain` and `seed`, or a function of a shape and a dtype that
            returns the values. Where critics share a file, each one after the first
            gets another seed than the initializer's own, and a run is refused if one
            begins like another, unless all values are the same.
    Raises:
        UserError: the name is another initializer's of Keras, or it can't be called.
    Example:
        >>> from xagents_ray.extend import register_initializer
        >>> def tiny(seed):
        ...     import keras
        ...
        ...     return keras.initializers.RandomNormal(stddev=1e-3, seed=seed)
        >>> register_initializer("tiny", tiny)
    """
    own = keras_initializer(name)
    if own in INITIALIZERS:
        word = getattr(initializer, "__name__", initializer)
        if isinstance(word, str) and keras_initializer(word) == own:
            return
        raise UserError(
            f"An initializer can't be named {name!r}, as one of Keras is: choose "
            "another word."
        )
    if not callable(initializer):
        raise UserError(
            f"The initializer {name!r} is {initializer!r:.80}: give a Keras "
            "initializer, or a class or function that makes one."
        )
    objects.keep("initializer", initializer, name)


@functools.cache
def load_other_kinds() -> Mapping[str, str]:
    """Register the plugins' kinds; return a sentence for each one that fails."""
    return load_plugins(LAYER_ENTRY_POINTS, register_layer)


def find_kind(kind: str) -> type[Layer] | None:
    """Return the layer class of a kind, built-in or registered; None if unknown.

    Raises:
        UserError: the plugin of this kind can't be loaded.
    """
    if kind in BUILT_IN_KINDS:
        return BUILT_IN_KINDS[kind]
    found: type[Layer] | None = objects.find_kept("layer", kind)
    if found is None and kind in load_other_kinds():
        raise UserError(load_other_kinds()[kind])
    return found or objects.find_kept("layer", kind)


def known_kinds() -> list[str]:
    load_other_kinds()
    return [*BUILT_IN_KINDS, *(name for _, name in objects.kept_names("layer"))]
