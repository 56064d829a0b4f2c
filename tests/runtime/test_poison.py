"""Rows on which Spark's part of an epoch fails: dead letters with the error, and all others count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.app import App
from penstock.model.reference import Reference
from penstock.model.time import instant
from penstock.runtime.epoch.poison import culprits, numbered
from penstock.runtime.errors import RunError
from penstock.runtime.script import OnSpark
from penstock.testing import TestStream, replay
from tests.comparison import differences

S = ps.stream("s", schema="k string, s string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
OUT = "element_at(slice(array(s), 1, 1), 1)"


def test_a_row_on_which_a_column_fails_is_dead_for_its_view_and_moves_time(spark, tmp_path):
    script = (
        TestStream(S)
        .add(("a", "1", "12:00:10"), ("a", "x", "12:00:20"), ("b", "3", "12:00:30"), ("b", None, "12:00:40"))
        .add(("a", "y", "12:05:00"))
        .add(("a", "4", "12:00:50"), ("b", "5", "12:05:10"))
    )

    def view(text):
        return S.group_by("k").window(ps.fixed("1 minute")).agg(total=ps.sum(f"CAST({text} AS int)"), all=ps.first("s"))

    expected = replay(view("s"), script, Reference(view("s")))
    got = replay(view(OUT), script, OnSpark(view(OUT), spark, tmp_path))
    assert not (found := differences(expected, got)), "\n".join(found)
    assert [row["s"] for row in got.dead] == ["x", "y"]
    assert got.dead[0]["reason"].startswith('The value \'x\' of the type "STRING" cannot be cast to "INT"')


def test_behind_a_filter_only_the_rows_that_pass_it_can_fail(spark, tmp_path):
    flow = S.where("k <> 'a'").select("k", "at", number=f"CAST({OUT} AS int)").where("number > 0")
    view = flow.group_by("k").agg(
        n=ps.count(), total=ps.sum("number", where="element_at(slice(array(k), 1, 1), 1) <> 'c'")
    )
    script = TestStream(S).add(("a", "x", "12:00:10"), ("b", "3", "12:00:30"), ("c", "-1", "12:00:30"))
    result = replay(view, script, OnSpark(view, spark, tmp_path))
    assert result.dead == []
    assert [(row["k"], row["n"], row["total"]) for row in result.table] == [("b", 1, 3)]


def test_a_row_on_which_code_fails_is_dead_for_the_views_behind_it(spark, tmp_path):
    @F.udf("int")
    def strict(text):
        if text == "x":
            raise ValueError(f"no such number: {text}")
        return int(text)

    flow = S.transform(lambda df: df.withColumn("n", strict("s")))
    view = flow.group_by("k").agg(n=ps.count(), total=ps.sum("n"))
    script = TestStream(S).add(("a", "1", "12:00:10"), ("a", "x", "12:00:20"), ("b", "3", "12:00:30"))
    result = replay(view, script, OnSpark(view, spark, tmp_path))
    assert [(row["k"], row["n"], row["total"]) for row in result.table] == [("a", 1, 1), ("b", 1, 3)]
    assert [(row["s"], row["reason"]) for row in result.dead] == [("x", "ValueError: no such number: x")]


def test_a_column_that_fails_on_what_code_made_is_dead_too(spark, tmp_path):
    flow = S.transform(lambda df: df.withColumn("n", F.concat("s", F.lit("0"))))
    view = flow.group_by("k").agg(total=ps.sum("CAST(element_at(slice(array(n), 1, 1), 1) AS int)"))
    script = TestStream(S).add(("a", "1", "12:00:10"), ("a", "x", "12:00:20"), ("b", "3", "12:00:30"))
    result = replay(view, script, OnSpark(view, spark, tmp_path))
    assert [(row["k"], row["total"]) for row in result.table] == [("a", 10), ("b", 30)]
    assert [row["n"] for row in result.dead] == ["x0"]


def test_the_search_finds_each_culprit_with_few_jobs(spark):
    frame = spark.range(0, 200, 1, 3).selectExpr("id", "IF(id IN (17, 199), 'x', '1') AS s")
    rows = numbered(frame)
    asked = []

    texts = {"fine": "id + 1", "cast": "CAST(s AS int)"}

    def parts(some, names):
        asked.append(names)
        return some.select(*(F.expr(texts[name]).alias(name) for name in names))

    try:
        found = culprits(rows, texts, parts)
        ids = [rows.where(F.col("__row") == one.number).first()["id"] for one in found]
        assert sorted(ids) == [17, 199]
        assert {one.part for one in found} == {"cast"}
        assert len(asked) <= 2 * (8 + 2) + 6
        with pytest.raises(RunError, match="more than 1 rows of one epoch") as error:
            culprits(rows, texts, parts, most=1)
        assert "cannot be cast" in str(error.value)
        texts["cast"] = "no_column"
        with pytest.raises(RunError, match="'no_column' fails, whatever the rows are"):
            culprits(rows, texts, parts)
    finally:
        rows.unpersist()


def test_failures_without_rows_stop_the_stream(spark, tmp_path):
    script = TestStream(S).add(("a", "x", "12:00:10"), ("a", "y", "12:00:20"), ("a", "1", "12:00:20"))
    down: list[bool] = []

    def broken(df):
        if down:
            raise ConnectionError("the table of pages cannot be reached")
        return df

    view = S.transform(broken).group_by("k").agg(n=ps.count())
    runner = OnSpark(view, spark, tmp_path / "other")
    runner.table()  # started
    down.append(True)
    with pytest.raises(RunError, match="whatever the rows are") as error:
        replay(view, script, runner)
    assert "cannot be reached" in str(error.value)


def put(root: Path, name: str, *rows: tuple) -> None:
    hidden = root / f".{name}"
    hidden.write_text("\n".join(json.dumps(dict(zip(("k", "s", "at"), row, strict=True))) for row in rows) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def test_an_app_goes_on_after_a_poison_row_and_other_views_count_it(spark, tmp_path):
    (tmp_path / "in").mkdir()

    def make() -> App:
        app = App("test")
        stream = app.stream(
            "s", ps.files(tmp_path / "in"), schema="k string, s string, at timestamp", event_time="at", id=f"{OUT}",
            watermark=ps.bounded("10 seconds"),
        )  # fmt: skip
        app.view("totals", stream.group_by("k").agg(total=ps.sum(f"CAST({OUT} AS int)")))
        app.view("counts", stream.group_by("k").agg(n=ps.count()))
        return app

    clock = instant("2024-05-01T13:00:00Z")
    rows = [("a", str(n), "2024-05-01T12:00:00Z") for n in range(5)]
    put(tmp_path, "a", *rows, ("a", "x", "2024-05-01T12:00:01Z"), ("a", "3", "2024-05-01T12:00:01Z"))
    for name in ("b", "c"):
        run = make().start(tmp_path / "state", spark=spark, tick=3600.0, clock=lambda: clock)
        try:
            run.catch_up()
            query = run.store.query
            assert query("SELECT total FROM totals WHERE k = 'a'").rows() == [(10,)]
            assert query("SELECT n FROM counts WHERE k = 'a'").rows() == [(6,)]
            dead = query("SELECT view, row FROM __refused WHERE kind = 'dead'").rows()
            assert [(view, json.loads(row)["s"]) for view, row in dead] == [("totals", "x")]
        finally:
            run.stop()
        put(tmp_path, name, ("b", "77", "2024-05-01T12:00:02Z"))
