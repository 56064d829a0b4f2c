"""Flows without state into sinks: each accepted row once, with its columns, committed with its epoch."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.model.time import instant
from tests import outbox

NOW = instant("2024-05-01T13:00:00Z")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, name: str, *rows: tuple) -> None:
    hidden = root / f".{name}"
    texts = (json.dumps(dict(zip(("page", "ms", "at"), row, strict=True))) for row in rows)
    hidden.write_text("\n".join(texts) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def make(root: Path, **options: object) -> tuple[App, ps.Stream]:
    app = App("test")
    return app, app.stream(
        "visits", ps.files(root / "in"), schema="page string, ms int, at timestamp", event_time="at",
        watermark=ps.bounded("10 seconds"), **options,
    )  # fmt: skip


def ran(app: App, root: Path, spark) -> None:
    run = app.start(root / "state", spark=spark, tick=3600.0, clock=lambda: NOW)
    try:
        run.catch_up()
    finally:
        run.stop()


def test_rows_reach_their_sinks_once_across_a_restart(root, spark):
    taken: list[dict] = []

    def app() -> App:
        app, visits = make(root)
        slow = visits.where("ms > 10").select("page", "at", seconds="ms / 1000")
        app.sink(slow, ps.to_jsonl(root / "out"), name="slow")
        app.sink(slow, ps.to_function(taken.extend), name="taken")
        words = visits.transform(lambda df: df.select(F.explode(F.split("page", "/")).alias("word"), "at"))
        app.sink(words.where("word <> ''").select("word"), ps.to_parquet(root / "words"), name="words")
        app.view("all", visits.group_by().agg(n=ps.count()))
        return app

    put(root, "a", ("/a/b", 5, "2024-05-01T12:00:00Z"), ("/b", 20, "2024-05-01T12:00:01Z"), ("/c", 1, None))
    ran(app(), root, spark)
    put(root, "b", ("/d", 3000, "2024-05-01T12:00:02Z"), ("/b", None, "2024-05-01T12:00:03Z"))
    ran(app(), root, spark)
    lines = [json.loads(line) for file in sorted((root / "out").glob("*.jsonl")) for line in file.open()]
    assert [(line["page"], line["seconds"]) for line in lines] == [("/b", 0.02), ("/d", 3.0)]
    assert lines[0]["at"] == "2024-05-01T12:00:01Z"
    assert set(lines[0]) == {"page", "at", "seconds", "pane"}
    assert [row["page"] for row in taken] == ["/b", "/d"]
    assert [row["pane"] for row in taken] == [line["pane"] for line in lines]  # one copy for both sinks
    words = pl.concat(pl.read_parquet(file) for file in sorted((root / "words").glob("*.parquet")))
    assert words["word"].to_list() == ["a", "b", "b", "d", "b"]
    assert words.columns == ["word", "pane"]


def test_an_app_may_have_rows_only_and_rows_that_fail_are_dead_letters(root, spark, capsys):
    app, visits = make(root, sign="ms")
    app.sink(visits.select("page", half="10 / length(page)"), ps.to_console(), name="shown")
    noon = "2024-05-01T12:00:00Z"
    put(root, "a", ("/a", 1, noon), ("", 1, noon), ("/b", -1, noon))
    run = app.start(root / "state", spark=spark, tick=3600.0, clock=lambda: NOW)
    try:
        run.catch_up()
        dead = run.store.query("SELECT view, reason FROM __refused WHERE kind = 'dead'").rows()
        assert [(view, "zero" in reason) for view, reason in dead] == [("shown", True)]
        panes = outbox.panes(run.store)
        assert panes["timing"].to_list() == ["row", "row"]
        assert panes["kind"].to_list() == ["insert", "retract"]
    finally:
        run.stop()
    assert "retract" in capsys.readouterr().out


def test_what_rows_cannot_have_is_refused(root):
    app, visits = make(root)
    with pytest.raises(DefinitionError, match="rows of a stream have none"):
        app.sink(visits, ps.to_jsonl(root / "out", mode="complete"))
    with pytest.raises(DefinitionError, match="has a column 'pane'"):
        app.sink(visits.select(pane="page"), ps.to_jsonl(root / "out"))
    with pytest.raises(DefinitionError, match="not this app's"):
        app.sink(ps.stream("other", schema="k string"), ps.to_jsonl(root / "out"))
    app.sink(visits, ps.to_jsonl(root / "out"))
    with pytest.raises(DefinitionError, match="cannot have another sink 'visits_jsonl'"):
        app.sink(visits, ps.to_jsonl(root / "out"))
