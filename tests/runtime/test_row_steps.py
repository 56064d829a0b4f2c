"""Steps that make rows of rows, in Spark's tasks: before and after what Spark computes, in views, sinks and audits."""

from __future__ import annotations

import json

import polars as pl
from pyspark.sql import functions as F

import penstock as ps
from penstock.app import App
from penstock.history.batch.audit import Audit
from penstock.model.reference import Reference
from penstock.model.time import instant
from penstock.runtime.script import OnSpark
from penstock.testing import TestStream, replay

NOW = instant("2024-05-01T13:00:00Z")
S = ps.stream(
    "s", schema="line string, v int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"), max_ahead=None
)
SCRIPT = TestStream(S).add(("b a", 1, "12:00:01"), ("a c a", 2, "12:00:02")).add((None, 3, "12:00:03"))


def split(row):
    return [{"word": word, "at": row.at} for word in row.line.split()]


def test_they_stand_before_and_after_what_spark_computes(spark, tmp_path):
    plain = S.where("line IS NOT NULL").explode("split(line, ' ') AS word").select(word="upper(word)", v="v")
    expected = replay(counted(plain), SCRIPT, Reference(counted(plain))).table
    flows = [
        S.where("line IS NOT NULL").flat_map(split, schema="word string, at timestamp")
        .transform(lambda df: df.withColumn("word", F.upper("word"))).map(lambda row: row.word, schema="word string"),
        S.explode("from_json(to_json(split(line, ' ')), 'array<string>') AS word").map(
            lambda row: row.word.upper(), schema="word string"),
        S.filter(lambda row: row.line).explode("split(line, ' ') AS word", position="n")
        .transform(lambda df: df.where("n >= 0")).select(word="initcap(word)").where("word <> ''"),
    ]  # fmt: skip
    for number, flow in enumerate(flows):
        found = replay(counted(flow), SCRIPT, OnSpark(counted(flow), spark, tmp_path / str(number))).table
        assert [(row["word"], row["n"]) for row in found] == [(row["word"], row["n"]) for row in expected]


def counted(flow):
    return flow.group_by("word").agg(n=ps.count())


def test_views_sinks_and_dead_letters_of_an_app_and_its_audit(spark, tmp_path):
    (tmp_path / "in").mkdir()
    lines = enumerate(["b a", "a c a", None])
    text = "".join(json.dumps({"line": line, "at": f"2024-05-01T12:00:0{n}Z"}) + "\n" for n, line in lines)
    (tmp_path / "in" / "lines.json").write_text(text)
    app = App("test")
    stream = app.stream("lines", ps.files(tmp_path / "in"), schema="line string, at timestamp", event_time="at")
    words = stream.flat_map(split, schema="word string, at timestamp")
    app.view("by_word", words.group_by("word").agg(n=ps.count(), last=ps.last("at")))
    app.view("in_order", stream.explode("split(line, ' ') AS word").group_by().agg(all=ps.collect_list("word")))
    app.sink(words.select("word"), ps.to_jsonl(tmp_path / "out"), name="words")
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0, clock=lambda: NOW)
    try:
        run.catch_up()
        assert run.store.query("SELECT word, n FROM by_word ORDER BY word").rows() == [("a", 3), ("b", 1), ("c", 1)]
        refused = run.store.query("SELECT view, kind, reason FROM __refused ORDER BY view")
        assert refused["reason"].unique().to_list() == [
            "flat_map(split) failed: AttributeError: 'NoneType' object has no attribute 'split'"
        ]
        assert refused["view"].to_list() == ["by_word", "words"]
        for name in ("by_word", "in_order"):
            assert Audit(spark, run.store, app.streams, app.views, run.history).run(name).is_right
    finally:
        run.stop()
    out = pl.concat(pl.read_ndjson(path) for path in sorted((tmp_path / "out").rglob("*.jsonl")))
    assert out["word"].to_list() == ["b", "a", "a", "c", "a"]


def test_structs_and_maps_of_a_stream_reach_the_kernel(spark, tmp_path):
    nested = ps.stream(
        "s", schema="who struct<name:string,tags:array<string>>, m map<string,int>, x array<struct<a:int>>"
    )
    row = {"who": {"name": "ann", "tags": ["a", "b"]}, "m": {"p": 1, "q": 2}, "x": [{"a": 5}]}
    script = TestStream(nested).add(row, {"who": None, "m": None, "x": None})
    flow = nested.where("who.name = 'ann'").explode("who.tags AS tag").explode("m AS key, value")
    view = flow.group_by("tag", name="who.name").agg(n=ps.sum("value + x[0].a"), keys=ps.collect_list("key"))
    expected = replay(view, script, Reference(view))
    assert replay(view, script, OnSpark(view, spark, tmp_path)).table == expected.table
    assert expected.table[0]["n"] == 13


def test_tables_beside_functions_have_versions_that_the_commit_and_the_audit_know(spark, tmp_path):
    for folder, rows in (
        ("in", [{"line": line, "at": "2024-05-01T12:00:00Z"} for line in ("a", "b", "a")]),
        ("names", [{"line": "a", "weight": 10}]),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    app = App("test")
    stream = app.stream("lines", ps.files(tmp_path / "in"), schema="line string, at timestamp", event_time="at")
    names = app.table("names", ps.files(tmp_path / "names"), schema="line string, weight int", key="line")
    known = stream.filter(lambda row, names: names.get(row.line), tables=[names])
    weights = known.map(lambda row, names: names.get(row.line).weight, schema="weight int", tables=[names])
    after_code = known.transform(lambda df: df.select("line", "at"), schema="line string, at timestamp")
    app.view("total", weights.group_by().agg(weight=ps.sum("weight")))
    app.view("lines_known", after_code.group_by("line").agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0, clock=lambda: NOW)
    try:
        run.catch_up()
        assert run.store.query("SELECT weight FROM total").rows() == [(20,)]
        assert run.store.query("SELECT line, n FROM lines_known").rows() == [("a", 2)]
        versions = {name: snapshot.version for name, snapshot in run.tables.snapshots.items()}
        stored = run.store.query("SELECT * FROM __versions")
        assert set(stored["version"]) == set(versions.values())
        assert Audit(spark, run.store, app.streams, app.views, run.history).run("total").is_right
    finally:
        run.stop()
