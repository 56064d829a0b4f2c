"""Draws games.svg: three players' points as their events come, and the games that the processor made of them.

python examples/player_statistics/picture.py
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.dates as dates
import matplotlib.pyplot as plt
import numpy as np

from penstock.model.time import instant, to_datetime
from penstock.testing import TestStream, process

HERE = Path(__file__).parent
COLOURS = ("#4a90c2", "#3b8f5c", "#c77414")


def made_up() -> list[tuple[int, str, str, int, Any]]:
    """Half an hour of three players: bursts of events with pauses between them."""
    chance, rows = np.random.default_rng(4), []
    for player in range(3):
        at = instant("2000-01-01T20:00:00Z") + player * 90_000_000
        while at < instant("2000-01-01T20:30:00Z"):
            for _ in range(int(chance.integers(8, 40))):
                at += int(chance.exponential(9) * 1_000_000)
                what = "kill" if chance.random() < 0.25 else "hit"
                rows.append((player, what, "axe", 100 if what == "kill" else 10, to_datetime(at)))
            at += int(chance.uniform(130, 400) * 1_000_000)
    return sorted(rows, key=lambda row: row[4])


def main() -> None:
    app = runpy.run_path(str(HERE / "app.py"))
    rows = made_up()
    script = TestStream(app["played"], clock="20:00:00")
    for first in range(0, len(rows), 10):
        script = script.add(*rows[first : first + 10])
    result = process(app["games"], script.watermark("21:00:00"))
    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, axes = plt.subplots(3, 1, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
    for player, (one, colour) in enumerate(zip(axes, COLOURS, strict=True)):
        for game in (row for row in result.rows if row["player"] == player):
            scores = [row for row in rows if row[0] == player and game["begun"] <= row[4] <= game["at"]]
            one.axvspan(game["begun"], game["at"], color=colour, alpha=0.12, lw=0)
            one.step([row[4] for row in scores], np.cumsum([row[3] for row in scores]), where="post", color=colour)
            one.annotate(f"{game['kills']} kills", (game["begun"], 1), (3, -11), color=colour, fontsize=8,
                         xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip
        one.set_ylabel(f"player {player}")
        one.spines[["top", "right"]].set_visible(False)
    axes[-1].xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    figure.suptitle("points of the game at hand; shaded: games, each out two minutes after its last event",
                    fontsize=10)  # fmt: skip
    figure.savefig(HERE / "games.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
