"""Figures that a notebook shows; importing this module imports Matplotlib."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class CellFigure(Figure):  # type: ignore[misc]
    """A Figure that a notebook shows as the value of a cell, without pyplot too."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        """Return the picture; it isn't called where pyplot's own way is set up."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
