"""Any operator after any other: all pairs, on the reference, on the engine without Spark, and on Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta

import pytest

import penstock as ps
from penstock.dataflow.join_stream import join_stream
from penstock.dataflow.process_stream import pattern_stream, processor_stream
from penstock.model.process import Processed
from penstock.runtime.script import OnSpark
from penstock.testing import TestStream, replay, run
from tests.strategies import DEEP

SCHEMA = "k string, v bigint, at timestamp"
SOURCE = ps.stream("src", schema=SCHEMA, event_time="at", watermark=ps.bounded("5 seconds", idle=None), max_ahead=None)
OTHER = ps.stream(
    "other", schema="k string, w bigint, seen timestamp", event_time="seen",
    watermark=ps.bounded("5 seconds", idle=None), max_ahead=None,
)  # fmt: skip
NAMES = ps.table("names", schema="k string, weight bigint", key="k")


class Sums(ps.Processor):
    """The sum so far of each key, and what it was when the key was quiet for ten seconds."""

    output = SCHEMA
    total = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.total += event.v * event.change
        self.set_timer(time + timedelta(seconds=10), name="quiet")
        yield {"k": key, "v": self.total, "at": time}

    def on_timer(self, key, timer):
        yield {"k": f"{key}!", "v": self.total, "at": timer.at}


def flow(made: ps.Flow) -> ps.Flow:
    """The columns that every operator takes."""
    return made.select("k", "v", "at")


def table_join(given: ps.Flow, name: str) -> ps.Flow:
    return flow(given.join(NAMES, on="k", how="left").select("k", "at", v="v + coalesce(weight, 0)"))


def stream_join(given: ps.Flow, name: str) -> ps.Flow:
    return flow(
        join_stream(name, given, OTHER, on="k", within=("-20 seconds", "20 seconds"), how="left", prefix="r_",
                    event_time="at").select("k", "at", v="v + coalesce(w, 0)")
    )  # fmt: skip


def as_of_join(given: ps.Flow, name: str) -> ps.Flow:
    made = join_stream(name, given, OTHER.versions("k"), how="left", prefix="r_", event_time="at")
    return flow(made.select("k", "at", v="v + coalesce(w, 0)"))


def as_of_changes(given: ps.Flow, name: str) -> ps.Flow:
    """What comes in finds what it has come to itself: the changes of a view over it."""
    sums = given.group_by("k").window(ps.fixed("10 seconds")).agg(w=ps.sum("v")).trigger(ps.on_time(early=ps.each()))
    table = sums.retracting().changes(f"{name}_sums").select("k", "w")
    made = join_stream(name, given, table.versions("k"), how="left", prefix="r_", event_time="at")
    return flow(made.select("k", "at", v="v + coalesce(w, 0)"))


def processor(given: ps.Flow, name: str) -> ps.Flow:
    return flow(processor_stream(name, given, Sums, by="k", event_time="at"))


def pattern(given: ps.Flow, name: str) -> ps.Flow:
    rising = ps.pattern("low", lambda e: e.v < 3).later("high", lambda e: e.v >= 3).within("30 seconds")
    made: Processed = pattern_stream(
        name, given, rising, by="k", output=SCHEMA, event_time="at",
        give=lambda key, match: {"k": key, "v": match["high"][0].v, "at": match["high"][0].at},
    )  # fmt: skip
    return flow(made)


def view_changes(given: ps.Flow, name: str) -> ps.Flow:
    view = given.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), v=ps.sum("v"))
    view = view.trigger(ps.on_time(early=ps.each(), late=ps.each())).retracting().allow_late("30 seconds")
    return flow(view.changes(name).select("k", "v", at="window_start"))


def where(given: ps.Flow, name: str) -> ps.Flow:
    return given.where("v <> 7").select("k", "v", "at")


def mapped(given: ps.Flow, name: str) -> ps.Flow:
    return given.map(lambda row: {"k": row.k, "v": row.v + 1, "at": row.at}, schema=SCHEMA)


def flat_mapped(given: ps.Flow, name: str) -> ps.Flow:
    return given.flat_map(lambda row: [(row.k, row.v, row.at), (row.k, row.v * 10, row.at)], schema=SCHEMA)


def exploded(given: ps.Flow, name: str) -> ps.Flow:
    return flow(given.explode("array(v, v + 1) AS part").select("k", "at", v="part"))


STEPS: dict[str, Callable[[ps.Flow, str], ps.Flow]] = {
    "where": where, "map": mapped, "flat_map": flat_mapped, "explode": exploded, "table join": table_join,
    "stream join": stream_join, "as-of join": as_of_join, "as-of join with changes": as_of_changes,
    "processor": processor, "pattern": pattern, "view changes": view_changes,
}  # fmt: skip


def chain(*names: str) -> ps.View:
    """A view over operators, one after the other."""
    made: ps.Flow = SOURCE
    for number, name in enumerate(names):
        made = STEPS[name](made, f"step_{number}")
    return (
        made.group_by("k").window(ps.fixed("10 seconds"))
        .agg(n=ps.count(), v=ps.sum("v"), newest=ps.last("v"), all=ps.collect_list("v"))
        .trigger(ps.on_time(early=ps.each(), late=ps.each())).allow_late("30 seconds")
    )  # fmt: skip


def script() -> TestStream:
    made = TestStream(SOURCE, OTHER)
    return (
        made.table(NAMES, ("a", 100), ("b", 200))
        .add(("a", 1, "12:00:00"), ("b", 2, "12:00:01"), ("a", 5, "12:00:04"), to="src")
        .add(("a", 10, "12:00:02"), ("c", 20, "12:00:03"), to="other")
        .add(("a", 2, "12:00:15"), ("c", 1, "12:00:12"), (None, 7, "12:00:13"), to="src")
        .add(("b", 30, "12:00:12"), ("a", 40, "12:00:20"), to="other")
        .restart()
        .add(("c", 9, "12:00:24"), ("a", 3, "12:00:02"), ("b", 4, "12:00:25"), to="src")
        .add(("c", 50, "12:00:30"), to="other")
        .add(("a", 6, "12:01:00"), to="src")
        .add(("z", 60, "12:01:30"), to="other")
        .add(("b", 8, "12:02:00"), to="src")
        .watermark("12:03:00", "src")
        .watermark("12:03:00", "other")
    )


#: What is refused, and why.
REFUSED = {("view changes", "pattern"): "a pattern takes final rows only"}
PAIRS = [pair for pair in itertools.product(STEPS, repeat=2) if pair not in REFUSED]


@pytest.mark.parametrize("names", PAIRS, ids=" then ".join)
def test_any_operator_after_any_other_gives_what_the_reference_gives(names):
    view = chain(*names)
    expected, given = run(view, script(), "reference"), run(view, script(), "engine")
    assert given.table == expected.table
    assert given.panes == expected.panes


@pytest.mark.parametrize(("names", "reason"), REFUSED.items())
def test_what_is_refused_says_why(names, reason):
    with pytest.raises(ps.DefinitionError, match=reason):
        chain(*names)


CHAINS = [
    ("view changes", "processor", "stream join"),
    ("stream join", "processor", "view changes", "table join"),
    ("as-of join", "pattern", "as-of join with changes", "processor"),
    ("processor", "pattern", "stream join", "where", "as-of join", "view changes"),
]


@pytest.mark.parametrize("names", CHAINS, ids=" then ".join)
def test_longer_chains(names):
    view = chain(*names)
    expected, given = run(view, script(), "reference"), run(view, script(), "engine")
    assert given.table == expected.table
    assert given.panes == expected.panes


@pytest.mark.parametrize("names", [*CHAINS[3:], *(PAIRS if DEEP else ())], ids=" then ".join)
def test_the_same_on_spark(spark, names):
    view = chain(*names)
    assert replay(view, script(), OnSpark(view, spark)).panes == run(view, script(), "reference").panes


class Same(ps.Processor):
    """Gives each event as it is."""

    output = SCHEMA

    def on_event(self, key, event, time):
        yield {"k": key, "v": event.v, "at": event.at}


def test_rows_that_dataframe_code_makes_of_an_operators_output_keep_the_order_of_commits(spark, tmp_path):
    made = processor_stream("same", SOURCE, Same, by="k", event_time="at").transform(lambda frame: frame)
    view = made.group_by("k").window(ps.fixed("1 minute")).agg(first=ps.first("v"), last=ps.last("v"))
    script = TestStream(SOURCE)
    for rows in ((1, 2, 3), (4, 5), (6,)):  # all at one time: only their places tell them apart
        script = script.add(*(("a", v, "12:00:01") for v in rows))
    result = replay(view, script, OnSpark(view, spark, tmp_path))
    assert [(row["first"], row["last"]) for row in result.table] == [(1, 6)]
