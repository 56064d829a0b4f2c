"""Draws visitors.svg: how many people came to a page, by the sketch of the live view and counted exactly.

python examples/unique_visitors/picture.py
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.dates as dates
import matplotlib.pyplot as plt
import polars as pl

import penstock as ps
from penstock import sql
from penstock.testing import TestStream, run

HERE = Path(__file__).parent
URL, LIVE, EXACT, SUM = "/home", "#c77414", "#4a90c2", "#9aa3ad"


def of_page(view: ps.View, script: TestStream) -> Iterator[tuple[datetime, int]]:
    """When each window of the page ends, and its visitors."""
    for row in sorted(run(view, script).table, key=lambda row: str(row["window_end"])):
        yield row["window_end"], row["visitors"]  # type: ignore[misc]


def main() -> None:
    made = runpy.run_path(str(HERE / "visits.py"))
    app = sql.load(HERE / "app.sql")
    visits, views = made["page_views"](an_hour=600), app.streams["page_views"]
    script = TestStream(views, clock=str(made["START"])).backlog()
    for rows in made["files"](visits.filter(pl.col("url") == URL)):
        script = script.clock(rows["arrives"].max()).add(*rows.drop("arrives").rows())
    hourly, days = app.views["visitors_by_hour"], app.views["visitors_of_three_days"]
    exact = ps.count_distinct("user")
    live = dict(of_page(hourly, script))
    counted = dict(
        of_page(views.group_by("url").window(hourly.windows).agg(visitors=exact).allow_late("1 day"), script)
    )
    three = [(end, n) for end, n in of_page(days, script) if min(counted) <= end <= max(counted)]

    mpl.rcParams.update({"svg.hashsalt": "penstock", "font.family": "DejaVu Sans", "font.size": 10})
    figure, (upper, middle, lower) = plt.subplots(
        3, 1, figsize=(9, 6.6), sharex=True, layout="constrained", height_ratios=(3, 1.3, 2)
    )
    upper.plot(list(counted), list(counted.values()), color=EXACT, label="counted exactly, as after a batch run")
    upper.plot(list(live), list(live.values()), ".", color=LIVE, label="the sketch of the live view")
    upper.set_title(f"visitors of {URL} by hour", loc="left", fontsize=10)
    middle.axhspan(-3.2, 3.2, color=LIVE, alpha=0.12, lw=0)
    middle.vlines(list(live), 0, [100 * (n / counted[end] - 1) for end, n in live.items()], color=LIVE)
    middle.set_title("the sketch's error in percent; shaded: where 95 of 100 should be", loc="left", fontsize=10)
    sums = [
        sum(n for other, n in counted.items() if 0 <= (end - other).total_seconds() < 3 * 86_400) for end, _ in three
    ]
    lower.plot(
        [end for end, _ in three], sums, "--", color=SUM, label="the hours added up: people who come again count again"
    )
    lower.plot([end for end, _ in three], [n for _, n in three], color=LIVE, label="visitors_of_three_days: each once")
    lower.set_title("visitors of the three days before", loc="left", fontsize=10)
    for one in (upper, middle, lower):
        one.spines[["top", "right"]].set_visible(False)
        if one is not middle:
            one.set_ylim(0, 1.3 * one.get_ylim()[1])
            one.legend(frameon=False, loc="upper left", fontsize=8)
    lower.xaxis.set_major_locator(dates.DayLocator())
    lower.xaxis.set_major_formatter(dates.DateFormatter("%-d %b"))
    figure.savefig(HERE / "visitors.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
