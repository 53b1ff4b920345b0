"""Adapts the default image networks to images that are too small for them."""

from collections.abc import Sequence

from xagents_ray.networks.section import Section

_PATCHES = {
    24 * 24: ((4, 2), (3, 2), (3, 1)),
    12 * 12: ((3, 2), (3, 1), (2, 1)),
    0: ((3, 1), (3, 1), (2, 1)),
}
"""Sizes and strides of convolutions, by an image's least number of pixels."""


def fit_to_image(sections: Sequence[Section], input_shape: tuple[int, ...]) -> None:
    """Shrink the convolutions of a network file in place if an image is too small.

    No kernel is larger than its input, so every image fits.

    Args:
        sections: sections of a file with a single chain of convolutions.
        input_shape: shape of the image, `(H, W, C)`.
    """
    layers = [each for each in sections if each.kind == "convolutional"]
    own = [(each.number("size"), each.number("stride", 1)) for each in layers]
    side = min(input_shape[:2])
    if _fitted(own, side) == own:
        return
    pixels = input_shape[0] * input_shape[1]
    smaller = next(rows for least, rows in _PATCHES.items() if pixels >= least)
    rows = [smaller[min(i, len(smaller) - 1)] for i in range(len(layers))]
    for layer, (size, stride) in zip(layers, _fitted(rows, side), strict=True):
        layer.values["size"], layer.values["stride"] = str(size), str(stride)


def _fitted(rows: Sequence[tuple[int, int]], side: int) -> list[tuple[int, int]]:
    """Return sizes and strides, with each size limited to its input's shorter side."""
    fitted = []
    for size, stride in rows:
        size = min(size, side)
        fitted.append((size, stride))
        side = (side - size) // stride + 1
    return fitted
