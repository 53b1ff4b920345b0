"""The kinds of layers in .cfg files: built-in ones and those of other packages."""

import functools
from collections.abc import Mapping

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import load_plugins
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer

BUILT_IN_KINDS: dict[str, type[Layer]] = {
    "convolutional": Convolutional,
    "dense": Dense,
    "flatten": Flatten,
}
"""The kinds of layers, as sections of a .cfg file name them."""
LAYER_ENTRY_POINTS = "xagents_ray.layers"
"""Entry points of this group name kinds, `scale = own_package.layers:Scale`."""


def register_layer(kind: str, layer: type[Layer]) -> None:
    """Add a kind of layer, which .cfg files then name: `[scale-0]` for `scale`.

    For the command line, a package declares it as an entry point of the group
    `xagents_ray.layers`, named like the kind. Registering a kind again replaces it, for
    instance when a notebook's cell runs again.

    Args:
        kind: name of the kind, letters only.
        layer: a class that extends `Layer`; the weights of the Keras layer that its
            `keras` returns must be named as in its `shapes`. With a method `onnx`,
            policies that have the layer can be exported.
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


@functools.cache
def load_other_kinds() -> Mapping[str, str]:
    """Add kinds of other packages; return a sentence for each unusable one."""
    return load_plugins(LAYER_ENTRY_POINTS, register_layer)


def find_kind(kind: str) -> type[Layer] | None:
    """Return the layer class of a kind, built-in or added; None if there is none.

    Raises:
        UserError: another package's kind can't be loaded.
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
