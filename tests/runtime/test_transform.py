"""DataFrame code on a stream: run by Spark before the kernel, on the rows that the stream accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError, PenstockError
from penstock.model.reference import Reference
from penstock.model.time import instant
from penstock.runtime.script import OnSpark
from penstock.testing import TestStream, replay, run
from tests.comparison import differences

SCHEMA = "k string, v int, at timestamp"
S = ps.stream("s", schema=SCHEMA, event_time="at", watermark=ps.bounded("10 seconds"))
SCRIPT = (
    TestStream(S)
    .add(("a", 1, "12:00:10"), ("b", 2, "12:00:20"), ("a", None, "12:00:30"))
    .add(("a", 4, "12:00:40"), ("b", 5, "12:01:20"))
    .restart()
    .add(("a", 6, "12:00:05"), ("b", 7, "12:02:10"))
    .watermark("12:02:00")
)


def shown(view, script, spark, directory):
    return replay(view, script, OnSpark(view, spark, directory))


def by_minute(flow):
    return flow.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count(), total=ps.sum("v"))


def same(df):
    return df


def test_code_that_changes_nothing_changes_nothing(spark, tmp_path):
    expected = replay(by_minute(S), SCRIPT, Reference(by_minute(S)))
    got = shown(by_minute(S.transform(same)), SCRIPT, spark, tmp_path)
    assert got.panes == expected.panes
    assert got.table == expected.table
    assert [row["reason"] for row in got.late] == [row["reason"] for row in expected.late]
    declared = by_minute(S.transform(same, schema=SCHEMA))
    assert shown(declared, SCRIPT, spark, tmp_path / "declared").table == expected.table


def test_steps_before_and_after_the_code_are_taken_in_order(spark, tmp_path):
    plain = S.where("v IS NOT NULL").select("k", "at", v="v * 2").where("v > 2").select("k", "at", v="v + 1")
    code = (
        S.where("v IS NOT NULL")
        .transform(lambda df: df.withColumn("v", F.col("v") * 2))
        .where("v > 2")
        .select("k", "at", v="v + 1")
    )
    expected = replay(by_minute(plain), SCRIPT, Reference(by_minute(plain)))
    assert shown(by_minute(code), SCRIPT, spark, tmp_path).table == expected.table


def test_a_row_may_become_several_or_none(spark, tmp_path):
    words = ps.stream("s", schema="text string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))

    def cut(df):
        return df.select("at", F.explode(F.split("text", " ")).alias("word")).where("word <> ''")

    flow = words.transform(cut)
    view = flow.group_by("word").agg(n=ps.count())
    script = TestStream(words).add(("a b a", "12:00:10"), ("", "12:00:20")).add(("b", "12:00:30"))
    assert [(row["word"], row["n"]) for row in shown(view, script, spark, tmp_path).table] == [("a", 2), ("b", 2)]


def test_the_watermark_follows_the_streams_own_rows(spark, tmp_path):
    early = S.transform(lambda df: df.where("v < 5").withColumn("at", F.expr("at - INTERVAL 1 HOUR")))
    view = early.group_by("k").window(ps.fixed("1 hour")).agg(n=ps.count())
    script = TestStream(S).add(("a", 1, "12:30:00")).add(("a", 9, "13:30:00")).add(("a", 2, "12:31:00"))
    result = shown(view, script, spark, tmp_path)
    assert [row["n"] for row in result.table] == [1]  # the row with 9 is gone, and has moved time
    assert [row["v"] for row in result.late] == [2]


def test_event_time_comes_from_what_comes_out(spark, tmp_path):
    without = S.transform(lambda df: df.select("k", F.col("at").alias("moment")))
    with pytest.raises(DefinitionError, match="leaves out 'at', which the event time of 's' is made of") as error:
        shown(without.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count()), SCRIPT, spark, tmp_path)
    assert "with_time" in str(error.value)
    moved = without.with_time("moment + INTERVAL 1 MINUTE").group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    plain = S.with_time("at + INTERVAL 1 MINUTE").group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    expected = replay(plain, SCRIPT, Reference(plain))
    assert shown(moved, SCRIPT, spark, tmp_path / "moved").table == expected.table


def test_ids_are_told_apart_before_the_code(spark, tmp_path):
    stream = ps.stream(
        "s", schema="id int, n int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"), id="id"
    )
    flow = stream.transform(lambda df: df.select("at", F.explode(F.sequence(F.lit(1), "n")).alias("i")))
    script = TestStream(stream).add((1, 3, "12:00:00"), (1, 3, "12:00:01")).add((1, 3, "12:00:02"), (2, 2, "12:00:03"))
    result = shown(flow.group_by().agg(n=ps.count()), script, spark, tmp_path)
    assert [row["n"] for row in result.table] == [5]
    assert len(result.duplicates) == 2


def test_branches_with_and_without_code_are_one_view(spark, tmp_path):
    plain = S.where("k = 'a'").union(S.where("k = 'b'").select("k", "at", v="v * 10").select("k", "v", "at"))
    code = S.where("k = 'a'").union(S.transform(lambda df: df.where("k = 'b'").withColumn("v", F.col("v") * 10)))
    expected = replay(by_minute(plain), SCRIPT, Reference(by_minute(plain)))
    got = shown(by_minute(code), SCRIPT, spark, tmp_path)
    assert got.table == expected.table
    assert got.panes == expected.panes


def test_streams_with_and_without_code_are_one_view(spark, tmp_path):
    other = ps.stream("o", schema=SCHEMA, event_time="at", watermark=ps.bounded("10 seconds"))
    script = (
        TestStream(S, other)
        .add(("a", 1, "12:00:10"), to="s")
        .add(("a", 2, "12:00:20"), to="o")
        .add(("a", 4, "12:01:30"), to="s")
        .add(("a", 8, "12:01:40"), to="o")
    )
    expected = replay(by_minute(S.union(other)), script, Reference(by_minute(S.union(other))))
    got = shown(by_minute(S.union(other.transform(same))), script, spark, tmp_path)
    assert not differences(expected, got)


def test_sessions_late_rows_and_lists_work_behind_code(spark, tmp_path):
    def view(flow):
        return flow.group_by("k").window(ps.session("20 seconds")).agg(vs=ps.collect_list("v")).retracting()

    expected = replay(view(S), SCRIPT, Reference(view(S)))
    got = shown(view(S.transform(same)), SCRIPT, spark, tmp_path)
    assert got.panes == expected.panes
    assert len(got.late) == len(expected.late)


def test_catalyst_columns_work_on_what_comes_out(spark, tmp_path):
    view = (
        S.transform(same)
        .where("element_at(slice(array(v), 1, 1), 1) IS NOT NULL")
        .group_by(key="element_at(slice(array(k), 1, 1), 1)")
        .agg(total=ps.sum("element_at(slice(array(v), 1, 1), 1)"))
    )
    plain = S.where("v IS NOT NULL").group_by(key="k").agg(total=ps.sum("v"))
    assert shown(view, SCRIPT, spark, tmp_path).table == replay(plain, SCRIPT, Reference(plain)).table


def test_code_may_join_a_static_frame_and_call_python_functions(spark, tmp_path):
    names = spark.createDataFrame([("a", "Ann"), ("b", "Bob")], "k string, name string")
    spark.udf.register("doubled", lambda v: None if v is None else v * 2, "int")
    flow = S.transform(lambda df: df.join(F.broadcast(names), "k"))
    view = flow.group_by("name").agg(total=ps.sum("doubled(v)"))
    result = shown(view, SCRIPT, spark, tmp_path)
    assert [(row["name"], row["total"]) for row in result.table] == [("Ann", 22), ("Bob", 28)]


def test_what_needs_spark_says_so_elsewhere():
    view = by_minute(S.transform(same))
    for engine in ("reference", "kernel"):
        with pytest.raises(DefinitionError, match="DataFrame code, which needs Spark") as error:
            run(view, SCRIPT, engine)
        assert "engine='spark'" in str(error.value)


@pytest.mark.parametrize(
    ("function", "schema", "message"),
    [
        (lambda df: df.collect(), None, "not a DataFrame"),
        (lambda df: df.select("nothing"), None, "Spark rejects"),
        (lambda df: df.select("k", "at"), "k string, v int, at timestamp", "gives other columns than its schema says"),
        (lambda df: df.withColumn("__mine", F.lit(1)), None, "Penstock's own"),
    ],
)
def test_code_that_cannot_be_is_refused_at_the_start(spark, tmp_path, function, schema, message):
    flow = S.transform(function, schema=schema)
    with pytest.raises(PenstockError, match=message):
        shown(flow.group_by("k").agg(n=ps.count()), SCRIPT, spark, tmp_path)


def test_a_column_that_does_not_come_out_is_named_at_the_start(spark, tmp_path):
    flow = S.transform(lambda df: df.select("k", "at"))
    with pytest.raises(DefinitionError, match="unknown column 'kk'"):
        shown(flow.group_by("kk").agg(n=ps.count()), SCRIPT, spark, tmp_path)


# an app


def put(root: Path, name: str, *rows: dict) -> None:
    hidden = root / f".{name}"
    hidden.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def trending(root: Path) -> App:
    """The program of the design, on files: as written there, but for Kafka."""
    app = ps.App("trending")
    posts = app.stream(
        "posts", ps.files(root / "in"),
        schema="id string, user string, text string, at timestamp",
        event_time="at", watermark=ps.bounded("10 seconds"), id="id")  # fmt: skip
    tags = posts.transform(lambda df: df.select(
        "user", "at", F.explode(F.regexp_extract_all("text", F.lit(r"#(\w+)"))).alias("tag")))  # fmt: skip
    trending = app.view(
        "trending",
        tags.group_by("tag")
            .window(ps.sliding("5 minutes", every="1 minute"))
            .agg(posts=ps.count(), people=ps.approx_distinct("user"))
            .trigger(ps.on_time(early=ps.every("10 seconds"), late=ps.each()))
            .retracting()
            .allow_late("1 hour"))  # fmt: skip
    app.view("tags", tags.group_by("tag").agg(posts=ps.count()))
    app.view("texts", posts.group_by().agg(n=ps.count()))
    app.sink(trending, ps.to_jsonl(root / "out"))
    return app


def test_the_program_of_the_design_runs_across_a_restart(spark, tmp_path):
    (tmp_path / "in").mkdir()
    clock = instant("2024-05-01T12:10:00Z")
    options = {"spark": spark, "tick": 3600.0, "clock": lambda: clock}
    post = {"id": "1", "user": "ann", "text": "#spark and #sql", "at": "2024-05-01T12:00:30Z"}
    put(tmp_path, "a", post, post, {**post, "id": "2", "user": "bob", "text": "#spark", "at": "2024-05-01T12:00:40Z"})
    run = trending(tmp_path).start(tmp_path / "state", **options)
    run.catch_up()
    run.stop()
    put(tmp_path, "b", {**post, "id": "3", "text": "no tag"}, {**post, "id": "4", "text": "#sql"}, post)
    run = trending(tmp_path).start(tmp_path / "state", **options)
    try:
        run.catch_up()
        query = run.store.query
        assert sorted(query("SELECT tag, posts FROM tags").rows()) == [("spark", 2), ("sql", 2)]
        assert query("SELECT n FROM texts").rows() == [(4,)]
        windows = query("SELECT tag, posts, people, count(*) FROM trending GROUP BY 1, 2, 3 ORDER BY 1").rows()
        assert windows == [("spark", 2, 2, 5), ("sql", 2, 1, 5)]
        assert run.store.counters()["posts.duplicate"] == 2
        [feed] = [feed for feed in run.groups.of("posts").engine.registry.lowered.of("posts") if feed.prefix]
        assert len(run.groups.of("posts").engine.registry.lowered.of("posts")) == 2  # both views of the tags share one
        assert set(run.queries["posts"].columns) == {"id", "user", "text", "at"}
        assert feed.schema.ddl() == "user string, at timestamp, tag string"
    finally:
        run.stop()
