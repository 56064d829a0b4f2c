"""Operators give out what waits when only time moves: no epoch brings rows."""

from __future__ import annotations

import penstock as ps
from penstock.testing import TestStream, run


def stream(name: str) -> ps.Stream:
    still = ps.punctuated("CAST(NULL AS timestamp)")
    return ps.stream(name, schema="k int, at timestamp", event_time="at", watermark=still, max_ahead=None)


def test_an_outer_join_gives_a_row_alone_however_time_moves_past_it():
    """State is forgotten in stretches of minutes here: the row is over before its stretch is."""
    left, right = stream("left"), stream("right")
    joined = left.join(right, on="k", within=("-1 hour", "1 hour"), how="left", prefix="r_", event_time="at")
    script = TestStream(left, right).add((1, "12:00:00"), to="left")
    for time in ("12:30:00", "13:00:30", "13:01:30", "13:20:00"):
        script = script.watermark(time, "left").watermark(time, "right")
    alone = joined.group_by("k").agg(n=ps.count())
    expected = run(alone, script, "reference")
    assert [row["n"] for row in expected.table] == [1]
    assert run(alone, script, "engine").panes == expected.panes
