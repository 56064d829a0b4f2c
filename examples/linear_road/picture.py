"""Draws tolls.svg: what cars that enter a segment must pay, minute by minute, and where accidents are.

python examples/linear_road/picture.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from examples.linear_road.app import linear_road
from examples.linear_road.events import EAST, Road, cut
from examples.linear_road.processors import minute
from examples.linear_road.without_spark import AppRun

HERE = Path(__file__).parent
ROAD = Road(minutes=30, cars=1_500, ramps=8, accidents=4, seed=9)
FIRST, LAST = 44, 60


def main() -> None:
    run = AppRun(linear_road(Path()), cut(ROAD.events(), 10))
    shape = ROAD.minutes, LAST - FIRST
    tolls, warned, accidents = np.full(shape, np.nan), np.full(shape, np.nan), set()
    for row in run.tolls.rows:
        if row["side"] is None and row["dir"] == EAST and FIRST <= row["seg"] < LAST:
            tolls[minute(row["time"]) - 1, row["seg"] - FIRST] = row["toll"]
    for row in run.tolls.rows:
        if row["side"] == "alerts" and row["alerts_dir"] == EAST and FIRST <= row["alerts_seg"] < LAST:
            at, where = minute(row["alerts_time"]) - 1, row["alerts_seg"] - FIRST
            accidents.add((where, at + 0.5))
            warned[at, max(0, where - 4) : where + 1] = 1

    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, axes = plt.subplots(figsize=(9, 5.4), layout="constrained")
    edges = np.arange(FIRST, LAST + 1) - 0.5, np.arange(ROAD.minutes + 1)
    shown = axes.pcolormesh(*edges, np.sqrt(tolls / 2), cmap="YlOrBr", vmin=0, rasterized=True)
    axes.pcolormesh(*edges, warned, cmap=ListedColormap(["#9fb4c7"]), rasterized=True)
    axes.plot([where + FIRST for where, _ in accidents], [at for _, at in accidents], "x", color="#1d3a57", ms=5)
    bar = figure.colorbar(shown, ax=axes, label="toll")
    bar.set_ticks(ticks := [tick for tick in bar.get_ticks() if tick <= shown.norm.vmax])
    bar.set_ticklabels([f"{2 * tick**2:,.0f}" for tick in ticks])
    axes.set_xlabel("segment, eastward")
    axes.set_ylabel("minute")
    axes.set_title("tolls by segment and minute; ×: an accident, blue: cars are warned and pay nothing",
                   loc="left", fontsize=10)  # fmt: skip
    figure.savefig(HERE / "tolls.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
