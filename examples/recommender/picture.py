"""Draws errors.svg: the prequential error of the live and of the frozen model, day by day.

python examples/recommender/picture.py
"""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.dates as dates
import matplotlib.pyplot as plt

from penstock.testing import TestStream, learn, run

HERE = Path(__file__).parent
COLOURS = {"live": "#3b8f5c", "frozen": "#c77414"}


def main() -> None:
    made, app = runpy.run_path(str(HERE / "ratings.py")), runpy.run_path(str(HERE / "app.py"))
    streams, views = app["app"].streams, app["app"].views
    script = TestStream(streams["ratings"])
    for _, rows in made["files"](made["ratings"]()):
        script = script.add(*rows.rows())
    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    for name, note in (("frozen", "trained until the ninth"), ("live", "learns with each epoch")):
        predicted = learn(streams[name], script).frame
        table = run(views[f"{name}_error"], TestStream(streams[name]).add(*predicted.rows())).table
        points = sorted((row["window_start"], row["error"]) for row in table)
        points.append((table[-1]["window_end"], points[-1][1]))
        axes.step(*zip(*points, strict=True), where="post", color=COLOURS[name], lw=2, label=f"{name}: {note}")
    axes.axvline(made["CHANGED"], color="#8a93a0", ls=":", lw=1)
    axes.annotate("tastes change", (made["CHANGED"], 0.5), xytext=(-6, 0), textcoords="offset points",
                  xycoords=("data", "axes fraction"), ha="right", color="#5b6470")  # fmt: skip
    axes.xaxis.set_major_locator(dates.DayLocator(interval=2))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%-d %b"))
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("mean squared error of each day's predictions, made before the ratings were learned", loc="left",
                   fontsize=10)  # fmt: skip
    axes.set_ylabel("stars²")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.02, 0.9))
    figure.savefig(HERE / "errors.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
