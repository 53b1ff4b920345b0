"""A figure for notebooks; importing this module imports Matplotlib."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class CellFigure(Figure):  # type: ignore[misc]
    """A Figure that notebooks show as the value of a cell, even without pyplot."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        """Return the image as PNG; notebooks with pyplot set up don't call this."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
