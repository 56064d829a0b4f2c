"""Expressions outside the kernel's subset: Catalyst's columns give what the kernel gives, shared and guarded."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.reference import Reference
from penstock.model.stream import Flow, Select, Stream, Union, Where, WithTime
from penstock.model.time import instant
from penstock.runtime.epoch.analyst import Analyst
from penstock.runtime.epoch.catalyst import lower
from penstock.runtime.epoch.needs import needed
from penstock.runtime.script import OnSpark
from penstock.testing import TestStream, replay, run
from tests.comparison import differences
from tests.strategies import cases, scripts, views

SCHEMA = "k string, s string, v int, at timestamp"
S = ps.stream("s", schema=SCHEMA, event_time="at", watermark=ps.bounded("1 day"))


def out(text: str) -> str:
    """The same value, written so that only Spark can tell it."""
    return f"element_at(slice(array({text}), 1, 1), 1)"


def outside(flow: Flow) -> Flow:
    """A flow of which every expression is Spark's to evaluate."""
    if isinstance(flow, Union):
        return Union(tuple(map(outside, flow.several)))
    if isinstance(flow, Where):
        return outside(flow.input).where(out(flow.condition))
    if isinstance(flow, WithTime):
        return outside(flow.input).with_time(out(flow.expression))
    if isinstance(flow, Select):
        return outside(flow.input).select(**{name: out(text) for name, text in flow.columns})
    assert isinstance(flow, Stream)
    mark = flow.watermark
    if isinstance(mark, ps.model.watermarks.Punctuated):
        mark = replace(mark, mark=out(mark.mark))
    own = {what: out(text) for what in ("event_time", "id", "sign") if (text := getattr(flow, what)) is not None}
    return replace(flow, watermark=mark, **own)


def outside_aggregate(aggregate):
    given = {name: getattr(aggregate, name, None) for name in ("x", "by", "value", "where")}
    return replace(aggregate, **{name: out(text) for name, text in given.items() if isinstance(text, str)})


def outside_view(view: ps.View) -> ps.View:
    window = view.windows
    if window.inputs:
        window = replace(window, columns=tuple(map(out, window.inputs)))
    return replace(
        view,
        input=outside(view.input),
        keys=tuple((name, out(text)) for name, text in view.keys),
        windows=window,
        aggregates=tuple((name, outside_aggregate(aggregate)) for name, aggregate in view.aggregates),
    )


def on_spark(view, script, spark, tmp_path, tasks=2):
    return replay(view, script, OnSpark(view, spark, tmp_path, tasks))


@cases(5, deep=40)
@given(view=views(python=False), data=st.data(), tasks=st.integers(1, 3))
def test_any_view_gives_the_same_when_spark_evaluates_all_its_expressions(spark, view, data, tasks):
    script = data.draw(scripts(view, longest=4))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    written = outside_view(view)
    moved = TestStream(*written.input.sources, clock=script.start, steps=script.steps)
    with tempfile.TemporaryDirectory() as directory:
        got = replay(written, moved, OnSpark(written, spark, Path(directory), tasks))
    assert not (found := differences(expected, replace(got, view=view))), "\n".join(found)


def test_the_state_goes_on_across_a_restart_under_the_same_fingerprint(spark, tmp_path):
    view = S.group_by(key="soundex(k)").agg(n=ps.count(), longest=ps.max("levenshtein(k, s)"))
    script = TestStream(S).add(("robert", "x", 1, "12:00:00"), ("rupert", "", 2, "12:00:01")).restart()
    script = script.add(("robert", "yyyyyyyyy", 3, "12:00:02"), ("ann", None, 4, "12:00:03"))
    result = on_spark(view, script, spark, tmp_path)
    assert [(row["key"], row["n"], row["longest"]) for row in result.table] == [("A500", 1, None), ("R163", 3, 9)]
    runner = OnSpark(view, spark, tmp_path / "again")
    assert runner.table() == []
    (stored,) = runner.store.query("SELECT fingerprint, definition FROM __views").rows()
    assert stored == (view.fingerprint(), repr(view))


def test_two_views_share_one_column_and_only_what_it_reads_is_read():
    stream = ps.stream("s", schema="a string, b string, c string, p struct<x:int,y:string>, at timestamp")
    views = {
        "one": stream.group_by(key="soundex( a )").agg(n=ps.count()),
        "two": stream.group_by("c").agg(n=ps.count("SOUNDEX(a)")),
        "three": stream.where("b > ''").group_by("c").agg(n=ps.count("soundex(a)"), x=ps.max("p.x")),
    }
    analyst = Analyst(lambda: None)
    for text in ("soundex( a )", "SOUNDEX(a)", "soundex(a)"):
        analyst._types[stream.schema, text] = "string"
    lowered = lower({"s": stream}, views, {}, analyst)
    [feed] = lowered.feeds.values()
    shared, guarded = feed.columns
    assert feed.columns[shared] == "soundex( a )"
    assert feed.columns[guarded] == "CASE WHEN (b > '') THEN soundex(a) END"
    assert lowered.views["one"].keys == (("key", shared),)
    assert lowered.views["two"].aggregates[0][1] == ps.count(shared)
    assert needed(stream, lowered) == ("a", "b", "c", "p")
    del views["three"]
    assert needed(stream, lower({"s": stream}, views, {}, analyst)) == ("a", "c")
    del views["one"], views["two"]
    views["plain"] = stream.group_by("c").agg(n=ps.count())
    assert lower({"s": stream}, views, {}, analyst).feeds["s"].columns == {}


def test_an_expression_behind_a_select_is_written_out_over_the_streams_own_columns():
    flow = S.select("at", name="upper(k)", size="v + 1").where("size > 2").select("at", code="soundex(name)")
    view = flow.group_by("code").agg(n=ps.count())
    analyst = Analyst(lambda: None)
    analyst._types[S.schema, "SOUNDEX((UPPER(k)))"] = "string"
    lowered = lower({"s": S}, {"view": view}, {}, analyst)
    assert list(lowered.feeds["s"].columns.values()) == ["CASE WHEN ((v + 1) > 2) THEN SOUNDEX((UPPER(k))) END"]


def test_what_spark_refuses_and_what_the_kernel_cannot_hold_is_refused_at_the_start(spark, tmp_path):
    for text, message in [
        ("no_such_function(k)", "unknown function 'no_such_function' in 'no_such_function(k)'"),
        ("map(k, v)", "is map<string,int>, and neither views nor sinks take maps and structs"),
    ]:
        view = S.group_by(key=text).agg(n=ps.count())
        with pytest.raises(DefinitionError, match=re.escape(message)):
            on_spark(view, TestStream(S).add(("a", "s", 1, "12:00:00")), spark, tmp_path / text)


def test_elsewhere_it_is_refused_with_the_engine_that_can():
    for view in (
        S.group_by(key="soundex(k)").agg(n=ps.count()),
        S.where("soundex(k) = 'A500'").group_by("k").agg(n=ps.count()),
    ):
        for engine in ("reference", "kernel"):
            with pytest.raises(DefinitionError, match="needs Spark: the function soundex") as error:
                run(view, TestStream(S), engine)
            assert "engine='spark'" in str(error.value)


def test_explain_says_who_evaluates_what_and_what_is_shared():
    tags = S.transform(lambda df: df, schema=SCHEMA)
    views = {
        "mine": S.where("soundex(k) = 'A500'").group_by(code="soundex(k)").agg(n=ps.count("v + 1")),
        "other": S.group_by(code="soundex(k)").agg(n=ps.count()),
        "tagged": tags.group_by("k").agg(n=ps.count()),
        "again": tags.group_by("s").agg(n=ps.count()),
    }
    text = views["mine"].explain({name: view for name, view in views.items() if name != "mine"})
    for part in (
        "SOUNDEX(k) = 'A500'  · by Catalyst, as a column: the function soundex is outside the kernel",
        "SOUNDEX(k)  · by Catalyst, as a column: the function soundex is outside the kernel",
        "v + 1  · by the kernel, int",
        "one scan of s, with other, tagged, again",
        "the column SOUNDEX(k), with other",
    ):
        assert part in text, text
    assert "one run of transform(<lambda>, schema='k string, s string, v int, at timestamp'), with again" in views[
        "tagged"
    ].explain({"again": views["again"]})


# an app


def put(root: Path, name: str, *rows: dict) -> None:
    hidden = root / f".{name}"
    hidden.write_text("\n".join(json.dumps(row) if isinstance(row, dict) else row for row in rows) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def test_a_view_added_while_running_brings_a_column_and_bad_rows_stay_apart(spark, tmp_path):
    (tmp_path / "in").mkdir()
    app = ps.App("test")
    stream = app.stream(
        "s", ps.files(tmp_path / "in"), schema="k string, p struct<x:int,y:string>, m string, at timestamp",
        event_time="to_timestamp(m)", watermark=ps.bounded("10 seconds"),
    )  # fmt: skip
    app.view("by_y", stream.group_by(y="upper(p.y)").agg(n=ps.count(), x=ps.sum("p.x")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0, clock=lambda: instant("2024-05-01T13:00:00Z"))
    row = {"k": "robert", "p": {"x": 2, "y": "a"}, "m": "2024-05-01 12:00:00", "at": "2024-05-01T12:00:00Z"}
    try:
        put(tmp_path, "a", row, {**row, "p": {"x": "many"}}, "{", {**row, "m": None}, {**row, "m": "soon"})
        run.catch_up()
        assert run.queries["s"].columns == ("p", "m")
        run.add_view("by_code", stream.where("p.x > 1").group_by(code="soundex(k)").agg(n=ps.count()))
        assert run.queries["s"].columns == ("k", "p", "m")
        put(tmp_path, "b", row, {**row, "k": "rupert"}, {**row, "p": None})
        run.catch_up()
        query = run.store.query
        assert sorted(query("SELECT y, n, x FROM by_y").rows(), key=str) == [("A", 3, 6), (None, 1, None)]
        assert query("SELECT code, n FROM by_code").rows() == [("R163", 2)]
        reasons = sorted(reason for (reason,) in query("SELECT reason FROM __refused WHERE kind = 'dead'").rows())
        assert reasons[1:] == [
            "the event time is null",
            "the line is not an object of JSON",
            "the row does not fit the stream's schema",
        ]
        assert "'soon'" in reasons[0]
    finally:
        run.stop()


def test_a_log_that_only_python_can_read_has_columns_and_code_too(spark, tmp_path):
    def rows(numbers, times, chance):
        return {"n": numbers, "name": [f"name {number % 3}" for number in numbers], "at": times}

    app = ps.App("test")
    stream = app.stream(
        "s", ps.generator(rows, rate=200), schema="n bigint, name string, at timestamp", event_time="at",
        watermark=ps.bounded("10 seconds"), max_ahead=None,
    )  # fmt: skip
    app.view("by_code", stream.group_by(code="element_at(slice(split(name, ' '), 1, 9), 2)").agg(n=ps.count()))
    app.view("after", stream.transform(lambda df: df.where("n % 2 = 0")).group_by().agg(n=ps.count()))
    app.view("plain", stream.group_by().agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        while run.store.counters().get("s.events", 0) < 100:
            run.wait(0.05)
    finally:
        run.queries["s"].query.stop()
        query = run.store.query
        (count,) = query("SELECT n FROM plain").row(0)
        assert query("SELECT sum(n), count(*) FROM by_code").row(0) == (count, 3)
        assert abs(query("SELECT n FROM after").item() * 2 - count) <= 1
        run.stop()
