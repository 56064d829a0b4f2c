"""The example of hourly plays on its made-up plays, without Spark."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock import sql
from penstock.testing import Result, TestStream, run
from tests.examples.answers import compare

EXAMPLE = Path(__file__).parents[2] / "examples" / "play_counts"


@pytest.fixture(scope="module")
def plays() -> pl.DataFrame:
    made: dict[str, Any] = runpy.run_path(str(EXAMPLE / "plays.py"))
    return made["plays"](hours=2, an_hour=4_000)


@pytest.fixture(scope="module")
def live(plays: pl.DataFrame) -> Result:
    made: dict[str, Any] = runpy.run_path(str(EXAMPLE / "plays.py"))
    app = sql.load(EXAMPLE / "app.sql")
    script = TestStream(app.streams["plays"], clock=str(made["START"])).backlog()
    for until, rows in made["files"](plays):
        script = script.clock(until).add(*rows.drop("arrives").rows())
    return run(app.views["plays_by_hour"], script.watermark("2024-05-03T14:00:00Z"))


def by_hour(plays: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("at").dt.truncate("1h").dt.replace_time_zone(None).alias("window_start")
    started, counted = pl.len().alias("started"), (pl.col("seconds") >= 30).sum().alias("plays")
    return plays.group_by("song", start).agg(started.cast(pl.Int64), counted.cast(pl.Int64))


def test_the_table_has_every_play(plays: pl.DataFrame, live: Result) -> None:
    assert not live.refused
    compare(live.table, by_hour(plays))


def test_there_are_panes_early_on_time_and_late(live: Result) -> None:
    timings = Counter(pane["timing"] for pane in live.panes if pane["kind"] == "insert")
    assert timings["on time"] == len(live.table)
    assert timings["early"] >= 2
    assert timings["late"] >= 2


def test_panes_add_up_to_the_table_since_each_takes_the_last_one_back(live: Result) -> None:
    sums: Counter[object] = Counter()
    for pane in live.panes:
        sums[pane["song"], pane["window_start"]] += pane["plays"] * (1 if pane["kind"] == "insert" else -1)
    assert sums == {(row["song"], row["window_start"]): row["plays"] for row in live.table}
