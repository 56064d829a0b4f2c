"""Draws the heat map from the store: `python examples/telco_heat_map/draw.py [directory] [picture]`."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

from penstock.store import Reader

SHARE = "SELECT x, y, sum(dropped) * 1.0 / sum(calls) FROM heat_map GROUP BY x, y"


def draw(directory: Path, picture: Path) -> None:
    """The share of dropped calls of premium users by place."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    reader = Reader(directory)
    rows = reader.query(SHARE).rows()
    reader.close()
    grid = np.full((25, 40), np.nan)
    for x, y, share in rows:
        grid[y, x] = share
    figure, axes = pyplot.subplots(figsize=(7, 4))
    shown = axes.imshow(grid, origin="lower", cmap="magma", vmin=0)
    figure.colorbar(shown, label="dropped calls of premium users")
    figure.savefig(picture, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    given = sys.argv[1:]
    draw(Path(given[0] if given else ".penstock"), Path(given[1] if len(given) > 1 else "heat_map.png"))
