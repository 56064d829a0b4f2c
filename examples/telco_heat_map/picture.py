"""Draws heat_map.svg: where calls of premium users drop, as the view has it.

python examples/telco_heat_map/picture.py               # from fewer subscribers and calls, without Spark
python examples/telco_heat_map/picture.py .penstock     # from the store of the app, into the working directory
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np

from penstock.store import Reader
from penstock.testing import TestStream, run

HERE = Path(__file__).parent
MINUTES = 5


def computed(subscribers: int = 20_000, calls: int = 400_000) -> list[dict[str, Any]]:
    """The rows of the view, by the kernel, from made-up data."""
    app, made = (runpy.run_path(str(HERE / name)) for name in ("app.py", "make.py"))
    script = TestStream(app["calls"], clock=made["START"]).table(
        app["subscribers"], *made["made_subscribers"](subscribers).rows()
    )
    for frame in made["made_calls"](subscribers, calls, files=20):
        script = script.add(*frame.rows())
    return run(app["app"].views["heat_map"], script).table


def stored(directory: Path) -> list[dict[str, Any]]:
    """The rows of the view in the store of an app."""
    reader = Reader(directory)
    try:
        return reader.query("SELECT x, y, window_start, calls, dropped FROM heat_map").rows(named=True)
    finally:
        reader.close()


def draw(rows: Iterable[Mapping[str, Any]], picture: Path) -> None:
    """The share of dropped calls by place, and how many calls of premium users there were."""
    calls, dropped = np.zeros((25, 40)), np.zeros((25, 40))
    windows: dict[object, int] = {}
    for row in rows:
        calls[row["y"], row["x"]] += row["calls"]
        dropped[row["y"], row["x"]] += row["dropped"]
        windows[row["window_start"]] = windows.get(row["window_start"], 0) + row["calls"]
    share = np.divide(dropped, calls, out=np.full(calls.shape, np.nan), where=calls > 0)
    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=(3, 2))
    shown = left.imshow(share, origin="lower", cmap="magma", vmin=0, vmax=0.7)
    figure.colorbar(shown, ax=left, shrink=0.8, format=lambda part, _: f"{part:.0%}")
    left.set_title("dropped calls of premium users, of all of theirs", loc="left", fontsize=10)
    numbers = [count for _, count in sorted(windows.items(), key=lambda one: str(one[0]))]
    right.bar(range(len(numbers)), numbers, color="#4a90c2", width=0.8)
    right.set_xticks(range(len(numbers)), [f"12:{MINUTES * n:02}" for n in range(len(numbers))])
    right.set_title("their calls; some leave at 12:10", loc="left", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(stored(Path(sys.argv[1])), Path("heat_map.svg"))
    else:
        draw(computed(), HERE / "heat_map.svg")
