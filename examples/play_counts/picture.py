"""Draws panes.svg: one hour of one song, each pane as it fired.

python examples/play_counts/picture.py
"""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.dates as dates
import matplotlib.pyplot as plt
import polars as pl

from penstock import sql
from penstock.model.time import to_datetime
from penstock.testing import TestStream, run

HERE = Path(__file__).parent
SONG = "Blue"
COLOURS = {"early": "#4a90c2", "on time": "#3b8f5c", "late": "#c77414"}


def main() -> None:
    made = runpy.run_path(str(HERE / "plays.py"))
    app = sql.load(HERE / "app.sql")
    plays = made["plays"](hours=3).filter(pl.col("song") == SONG)
    script = TestStream(app.streams["plays"], clock=str(made["START"])).backlog()
    # Epochs of a minute while the songs are played, and then of half an hour.
    start = made["START"].replace(hour=13)
    at = pl.col("arrives")
    ends = {every: at.dt.truncate(every).dt.offset_by(every) for every in ("1m", "30m")}
    until = pl.when(at < start.replace(hour=15)).then(ends["1m"]).otherwise(ends["30m"])
    for (now,), rows in plays.group_by(until.alias("until"), maintain_order=True):
        script = script.clock(now).add(*rows.drop("arrives").rows())
    commits = [commit.now for commit in script.commits() if commit is not None]
    panes = [
        (to_datetime(commits[pane["commit"] - 1]), pane)
        for pane in run(app.views["plays_by_hour"], script).panes
        if pane["song"] == SONG and pane["window_start"] == start and pane["kind"] == "insert"
    ]
    hour = plays.filter((pl.col("at").dt.truncate("1h") == start) & (pl.col("seconds") >= 30))

    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=(2, 3))
    for one in (left, right):
        one.step(hour["arrives"], range(1, hour.height + 1), where="post", color="#c9ced6", label="have arrived")
        for timing, colour in COLOURS.items():
            fired = [(at, pane["plays"]) for at, pane in panes if pane["timing"] == timing]
            size, label = 5 if timing == "late" else 9, f"{timing}: {len(fired)}"
            one.plot(*zip(*fired, strict=True), ".", ms=size, color=colour, label=label)
        one.spines[["top", "right"]].set_visible(False)
    left.set_xlim(start, start.replace(hour=14, minute=30))
    left.xaxis.set_major_locator(dates.HourLocator())
    left.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    left.set_title(f"'{SONG}' from 13 to 14 o'clock, while it is played", loc="left", fontsize=10)
    left.set_ylabel("plays")
    (on_time,) = (pane["plays"] for _, pane in panes if pane["timing"] == "on time")
    right.set_xlim(start.replace(hour=14))
    right.set_ylim(on_time - 5, hour.height + 5)
    right.xaxis.set_major_locator(dates.DayLocator())
    right.xaxis.set_major_formatter(dates.DateFormatter("%-d %b"))
    right.set_title("and as listeners come back: each pane takes the last one back", loc="left", fontsize=10)
    right.legend(frameon=False, loc="lower right")
    figure.savefig(HERE / "panes.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
