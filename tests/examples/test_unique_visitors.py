"""The example of unique visitors on its made-up page views, without Spark."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import sql
from penstock.testing import Result, TestStream, run
from tests.examples.answers import compare

EXAMPLE = Path(__file__).parents[2] / "examples" / "unique_visitors"


@pytest.fixture(scope="module")
def visits() -> tuple[pl.DataFrame, TestStream]:
    """A day of page views, and the same as a script: what arrives in each hour is an epoch."""
    made: dict[str, Any] = runpy.run_path(str(EXAMPLE / "visits.py"))
    found = made["page_views"](days=1, an_hour=200)
    script = TestStream(sql.load(EXAMPLE / "app.sql").streams["page_views"], clock=str(made["START"])).backlog()
    for rows in made["files"](found):
        script = script.add(*rows.drop("arrives").rows())
    return found, script


@pytest.fixture(scope="module")
def live(visits: tuple[pl.DataFrame, TestStream]) -> Result:
    return run(sql.load(EXAMPLE / "app.sql").views["visitors_by_hour"], visits[1])


def by_hour(found: pl.DataFrame) -> pl.DataFrame:
    """What is right: each page view once, whenever it came."""
    start = pl.col("at").dt.truncate("1h").dt.replace_time_zone(None).alias("window_start")
    views, people = pl.len().cast(pl.Int64).alias("views"), pl.col("user").n_unique().cast(pl.Int64).alias("visitors")
    return found.unique("id").group_by("url", start).agg(views, people)


def test_views_that_come_late_count_and_those_that_come_twice_do_not(visits, live) -> None:
    found, _ = visits
    compare(live.table, by_hour(found).drop("visitors"))
    assert not live.late
    assert len(live.duplicates) == found.height - found.n_unique("id") > 0


def test_the_sketch_is_within_a_few_percent_and_says_that_it_is_one(visits, live) -> None:
    right = {row["url"] + str(row["window_start"]): row["visitors"] for row in by_hour(visits[0]).iter_rows(named=True)}
    for row in live.table:
        assert row["visitors"] == pytest.approx(right[row["url"] + f"{row['window_start']:%Y-%m-%d %X}"], rel=0.05)
        assert row["visitors_exact"] is False


def test_counted_exactly_it_is_right(visits) -> None:
    found, script = visits
    view = script.streams[0].group_by("url").window(ps.fixed("1 hour")).agg(visitors=ps.count_distinct("user"))
    compare(run(view.allow_late("1 day"), script).table, by_hour(found).drop("views"))
