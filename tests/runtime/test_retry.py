"""Dead letters of operators, views and sinks are fed in again where they failed, once, and come to nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.history.batch.audit import Audit
from penstock.history.events.dead import dead_letters
from penstock.model.time import instant

NOW = instant("2024-05-01T13:00:00Z")
SCHEMA = "k string, v int, x decimal(9,2), w array<timestamp>, at timestamp"
LATE = ps.bounded("1 hour")


class Fix:
    """Whether code is broken still: there is a file if so, which tasks see too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def check(self, value: object) -> None:
        if value == 2 and self.path.exists():
            raise ValueError("it is broken")

    def done(self) -> None:
        self.path.unlink()


def make(root: Path, fix: Fix) -> App:
    app = App("test")
    events = app.stream(
        "events", ps.files(root / "in"), schema=SCHEMA, event_time="at", watermark=LATE, id="concat(k, v)"
    )

    class Totals(ps.Processor):
        output = "k string, total bigint, x decimal(9,2), at timestamp"
        total = ps.value("bigint", default=0)

        def on_events(self, key, events):
            for event, time in zip(events, events.times, strict=True):
                self.total += event.v
                fix.check(event.v)
                yield {"k": key, "total": self.total, "x": event.x + len(event.w), "at": time}

    def checked(row):
        fix.check(row.v)
        return {"k": row.k, "v": row.v, "at": row.at}

    mapped = events.map(checked, schema="k string, v int, at timestamp")
    app.view("mapped_sums", mapped.group_by("k").agg(s=ps.sum("v"), n=ps.count()))
    app.view("sums", events.group_by("k").agg(s=ps.sum("v"), n=ps.count()))
    totals = app.process("totals", events, Totals, by="k", event_time="at")
    app.view("from_totals", totals.group_by("k").agg(n=ps.count(), most=ps.max("total"), x=ps.sum("CAST(x AS int)")))
    others = totals.select(key="k", total="total", seen="at")
    both = app.join(
        "both", mapped, others.with_time("seen"), on="k = key", within=("-1 hour", "1 hour"), event_time="at"
    )
    app.view("pairs", both.group_by().agg(n=ps.count()))
    app.sink(mapped.select("k", "v"), ps.to_jsonl(root / "out"), name="rows")
    return app


def put(root: Path, name: str, *values: tuple[str, int]) -> None:
    rows = [
        {"k": k, "v": v, "x": 10 * v, "w": ["2024-05-01T10:00:00Z"], "at": f"2024-05-01T12:00:0{v}Z"} for k, v in values
    ]
    (root / "in").mkdir(exist_ok=True)
    (root / "in" / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows_of(run: Any, view: str) -> list[Any]:
    table = run.store.query(f"SELECT * FROM {view}")
    return sorted(
        table.select(
            name for name in table.columns if not name.startswith(("__", "window_")) and name != "final"
        ).rows()
    )


def test_rows_come_again_where_they_failed_and_nowhere_else(spark, tmp_path):
    fix = Fix(tmp_path / "broken")
    app = make(tmp_path, fix)
    put(tmp_path, "a", ("a", 1), ("a", 2), ("b", 2), ("a", 3))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0, clock=lambda: NOW)
    try:
        run.catch_up()
        assert rows_of(run, "mapped_sums") == [("a", 4, 2)]
        assert rows_of(run, "from_totals") == [("a", 2, 4, 42)], "the state was restored, and rows ran one by one"
        assert rows_of(run, "pairs") == [(4,)]
        letters = dead_letters(run.history, "totals")
        assert letters["operator"].to_list() == [None, None]
        assert [json.loads(row)["v"] for row in letters["row"]] == [2, 2]
        assert dead_letters(run.history, "mapped_sums").height == dead_letters(run.history, "both").height == 2
        assert dead_letters(run.history, "events").height == 0, "the stream itself refused none"

        again = run.retry_dead_letters("totals", "row LIKE '%\"b\"%'")
        assert (again.rows, again.dead, again.late) == (1, 1, 0), "it fails again, and waits again"
        assert dead_letters(run.history, "totals").height == 2

        fix.done()
        before = rows_of(run, "sums")
        for name in ("totals", "mapped_sums", "both", "rows"):
            again = run.retry_dead_letters(name)
            assert (name, again.rows, again.dead, again.late) == (name, 2, 0, 0)
            assert run.retry_dead_letters(name).rows == 0, "once"
        assert rows_of(run, "mapped_sums") == [("a", 6, 3), ("b", 2, 1)]
        assert rows_of(run, "from_totals") == [("a", 3, 6, 63), ("b", 1, 2, 21)]
        assert rows_of(run, "pairs") == [(3 * 3 + 1,)]
        assert rows_of(run, "sums") == before
        for view in ("mapped_sums", "sums", "from_totals"):
            assert Audit(spark, run.store, app.streams, app.views, run.history).run(view).is_right
        with pytest.raises(DefinitionError, match="unknown stream of the history 'nobody'"):
            run.retry_dead_letters("nobody")
    finally:
        run.stop()
    out = pl.concat(pl.read_ndjson(path) for path in sorted((tmp_path / "out").rglob("*.jsonl")))
    assert sorted(out.select("k", "v").rows()) == [("a", 1), ("a", 2), ("a", 3), ("b", 2)]
