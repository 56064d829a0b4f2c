"""Counters of user code: in functions of rows and in processors, in the store with the commit that they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import penstock as ps
from penstock.dataflow.process_stream import processor_stream
from penstock.kernel.elements import MadeBefore, elements
from penstock.kernel.plan import Plan
from penstock.model.counters import collected, counted
from penstock.process_state import process
from penstock.runtime.script import OnEngine, OnSpark
from penstock.testing import TestStream, replay, run

LINES = ps.stream("lines", schema="k string, text string", max_ahead=None)


def split(row):
    for word in row.text.split():
        ps.counter("words").add(1)
        yield (row.k, word)


class Long(ps.Processor):
    output = "k string, word string"

    def on_event(self, key, event, time):
        if len(event.word) > 3:
            ps.counter("long_words").add(2)
            yield {"k": key, "word": event.word}


def view() -> ps.View:
    words = LINES.flat_map(split, schema="k string, word string")
    return processor_stream("long", words, Long, by="k").group_by("k").agg(n=ps.count())


SCRIPT = TestStream(LINES).add(("a", "one three seven"), ("b", "five of")).add(("a", "eleven"))


def test_counts_of_functions_and_processors_are_in_the_store(spark):
    for runner in (OnEngine(view()), OnSpark(view(), spark)):
        assert replay(view(), SCRIPT, runner).table == run(view(), SCRIPT, "reference").table
        counters = runner.store.counters()
        assert (counters["lines.words"], counters["long.long_words"]) == (6, 8)


def test_a_chain_over_files_runs_on_the_engine(tmp_path: Path):
    """A source of files is given by the script, and operators behind it run."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"k": "x"}))
    source = ps.stream("orders", ps.files(tmp_path / "in"), schema="k string, word string", max_ahead=None)
    made = processor_stream("kept", source, Long, by="k").group_by("k").agg(n=ps.count())
    script = TestStream(source).add(("a", "long enough"), ("a", "no"))
    assert run(made, script, "engine").table == run(made, script, "reference").table != []


# rows that do not count


def checked(row):
    ps.counter("seen").add()
    if row.text == "bad":
        raise ValueError("bad")
    return {"k": row.k, "size": None if row.text == "huge" else len(row.text)}


def strict(row):
    ps.counter("passed").add()
    return {"k": row.k, "size": "no number" if row.size == 4 else row.size}


def positive(row):
    ps.counter("asked").add()
    return row.size > 0


def of_batch(rows):
    ps.counter("batches").add(rows.height)
    if rows["size"].has_nulls():
        raise ValueError("null")
    return rows


def lifted(size):
    ps.counter("lifted").add()
    if size == 6:
        raise ValueError("six")
    return size


def failing_view() -> ps.View:
    """Every step fails on some rows: on 'bad', on 'four', on 'huge', on the empty one in the view, on six letters."""
    flow = LINES.map(checked, schema="k string, size bigint").map(strict, schema="k string, size bigint")
    flow = flow.filter(positive).map_batches(of_batch, schema="k string, size bigint")
    largest = ps.monoid("largest", "size", lift=lifted, merge=max, zero=0, result_type="bigint", samples=[(1,), (2,)])
    return flow.group_by("k").agg(n=ps.count(), largest=largest)


FAILING = TestStream(LINES).add(
    ("a", "bad"), ("a", "four"), ("a", "huge"), ("a", "good!"), ("b", "bad"), ("b", "twelve"), ("b", "fine one")
)


def test_rows_on_which_a_function_fails_are_not_counted():
    runner = OnEngine(failing_view())
    found = replay(failing_view(), FAILING, runner)
    assert [(row["k"], row["n"], row["largest"]) for row in found.table] == [("a", 1, 5), ("b", 1, 8)]
    assert len(found.dead) == 5
    counters = {name.removeprefix("lines."): value for name, value in runner.store.counters().items()}
    names = ("seen", "passed", "asked", "lifted")
    assert {name: counters[name] for name in names} == dict.fromkeys(names, 2)
    assert counters["batches"] == 3, "a batch counts as a whole, whatever happens to a row of it behind the function"


def test_a_function_that_several_views_share_counts_once():
    sizes = LINES.map(checked, schema="k string, size bigint")
    views = [sizes.group_by("k").agg(n=ps.count()), sizes.group_by("k").agg(most=ps.max("100 / size"))]
    batch = pl.DataFrame({"k": ["a", "a", "b"], "text": ["", "four", "bad"]}).with_columns(
        __at=pl.lit(0, pl.Int64), __source=pl.lit(0, pl.Int32), __partition=pl.lit(0, pl.Int32),
        __offset=pl.int_range(3, dtype=pl.Int64),
    )  # fmt: skip
    plans = [Plan(view) for view in views]
    with collected() as counts:
        before: MadeBefore = {}
        dead = [elements(plan, plan.branches[0], batch, before).dead.height for plan in plans]
    assert dead == [1, 2], "one of them fails on the empty text too"
    assert counts.totals() == {"seen": 2}


def test_a_batch_is_counted_once_though_it_runs_again_in_parts():
    sizes = ps.stream("sizes", schema="size bigint", max_ahead=None)
    view = sizes.map_batches(of_batch, schema="size bigint").group_by().agg(n=ps.count())
    runner = OnEngine(view)
    found = replay(view, TestStream(sizes).add((1,), (2,), (None,), (4,), (5,)), runner)
    assert found.table[0]["n"] == 4
    assert runner.store.counters()["sizes.batches"] == 4


def test_where_nobody_collects_failing_rows_are_not_counted_either():
    process.reset()
    script = TestStream(LINES).add(("a", "bad"), ("a", "three"))
    run(LINES.map(checked, schema="k string, size bigint").group_by("k").agg(n=ps.count()), script, "reference")
    assert counted() == {"seen": 1}
    process.reset()
