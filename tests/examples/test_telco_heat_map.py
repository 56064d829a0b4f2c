"""The example of the telco heat map on fewer made-up calls, without Spark: as DuckDB has it, and as a picture."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import duckdb
import pytest

from penstock.testing import Result, TestStream, run
from tests.examples.answers import compare

EXAMPLE = Path(__file__).parents[2] / "examples" / "telco_heat_map"
ASKED = """
    SELECT c.x, c.y, time_bucket(INTERVAL 5 MINUTES, c.at) AT TIME ZONE 'UTC' AS window_start, count(*) AS calls,
           count(*) FILTER (WHERE c.dropped) AS dropped
    FROM calls c ASOF JOIN subscribers s ON c.subscriber = s.id AND c.at >= s.since
    WHERE s.tier = 'premium' GROUP BY ALL
"""


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "make.py"))


@pytest.fixture(scope="module")
def live(made: dict[str, Any]) -> Result:
    example = runpy.run_path(str(EXAMPLE / "app.py"))
    script = TestStream(example["calls"], clock=made["START"])
    script = script.table(example["subscribers"], *made["made_subscribers"](1_000).rows())
    for frame in made["made_calls"](1_000, 6_000, 3):
        script = script.add(*frame.rows())
    return run(example["app"].views["heat_map"], script)


def test_a_call_is_judged_by_what_its_subscriber_was_when_it_was_made(made: dict[str, Any], live: Result) -> None:
    import polars as pl

    subscribers, calls = made["made_subscribers"](1_000), pl.concat(made["made_calls"](1_000, 6_000, 3))
    with duckdb.connect() as asked:
        asked.sql("SET TimeZone = 'UTC'")
        asked.register("subscribers", subscribers)
        asked.register("calls", calls)
        expected = asked.sql(ASKED).pl()
    assert subscribers.height > 1_000, "some are premium users for a while only"
    compare(live.table, expected)


def test_the_picture_is_drawn(live: Result, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runpy.run_path(str(EXAMPLE / "picture.py"))["draw"](live.table, tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size > 1_000
    assert (EXAMPLE / "heat_map.svg").exists()
