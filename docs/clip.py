"""Make an animated GIF of a part of a video: clip.py VIDEO GIF [FIRST_SECOND SECONDS].

Every second frame is kept, twice as large and with 64 colors.
"""

import sys
from itertools import islice

import av
from PIL import Image

_COLORS, _EVERY = 64, 2


def make(video: str, gif: str, first: float = 0, seconds: float = 10) -> None:
    """Write the GIF; it repeats forever."""
    with av.open(video) as file:
        stream = file.streams.video[0]
        rate = float(stream.average_rate)
        start, end = int(first * rate), int((first + seconds) * rate)
        kept = islice(file.decode(stream), start, end, _EVERY)
        frames = [frame.to_image() for frame in kept]
    size = tuple(side * 2 for side in frames[0].size)
    # One palette for all, or unchanged pixels would be stored again.
    palette = frames[len(frames) // 2].quantize(_COLORS, Image.Quantize.FASTOCTREE)
    shown = [
        frame.resize(size, Image.Resampling.NEAREST).quantize(
            palette=palette, dither=Image.Dither.NONE
        )
        for frame in frames
    ]
    shown[0].save(
        gif,
        save_all=True,
        append_images=shown[1:],
        loop=0,
        duration=1000 * _EVERY / rate,
    )


if __name__ == "__main__":
    make(*sys.argv[1:3], *map(float, sys.argv[3:]))
