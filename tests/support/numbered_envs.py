"""A goal environment that refuses the index of another one that is open."""

from pathlib import Path
from typing import Any

import numpy as np
from goal_envs import PointReach


class Numbered(PointReach):
    """Holds the file of its index in `open/` while it is open; notes it in `all/`."""

    def __init__(self, index: int, folder: str, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode, self.index = render_mode, index
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
        for name in ("open", "all"):
            Path(folder, name).mkdir(exist_ok=True)
        self._file = Path(folder, "open", str(index))
        self._file.touch(exist_ok=False)
        Path(folder, "all", str(index)).touch()

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)

    def close(self) -> None:
        self._file.unlink(missing_ok=True)


def indices(folder: Path, which: str = "all") -> list[int]:
    """Return the indices that were noted, or those that are open now."""
    return sorted(int(path.name) for path in (folder / which).iterdir())
