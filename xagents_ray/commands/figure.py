"""A figure for notebooks; importing this module imports Matplotlib."""

import io

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator


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


def decorate_axes(axes: Axes) -> None:
    """Add a grid and a legend; the legend shows labels as they are, without TeX."""
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
    legend = axes.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="0.9")
    for text in legend.get_texts():
        text.set_parse_math(False)


def count_in_thousands(axis: Axis) -> None:
    """Format ticks as 250k and 1.5M."""
    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(EngFormatter(sep=""))
