"""The audit: silent over what is right, and loud about a single wrong row, file or definition."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.history.batch.audit import Audit, AuditResult
from penstock.history.batch.recomputation import Recomputation
from penstock.history.batch.runs import batch
from penstock.model.time import instant, show_instant
from penstock.runtime.run import Run
from penstock.store import Reader

BEGIN = instant("2026-05-01T12:00:00Z")
VIEWS: dict[str, Callable[[ps.Stream], ps.View]] = {
    "fixed": lambda s: s.group_by("k").window(ps.fixed("10 seconds")).agg(
        n=ps.count(), total=ps.sum("x"), m=ps.avg("x")
    ),
    "sliding": lambda s: s.group_by("k").window(ps.sliding("30 seconds", every="10 seconds")).agg(
        n=ps.count(), top=ps.max("v")
    ),
    "session": lambda s: s.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count(), last=ps.last("v")),
    "counted": lambda s: s.group_by("k").window(ps.count_window(7)).agg(n=ps.count(), total=ps.sum("v")),
    "total": lambda s: s.where("v % 2 = 0").group_by("k").agg(
        n=ps.count(), people=ps.approx_distinct("v"), q=ps.quantile("x", [0.5, 0.9])
    ),
    "tolerant": lambda s: s.window(ps.fixed("10 seconds")).agg(n=ps.count(), h=ps.heavy_hitters("k"))
    .allow_late("20 seconds"),
    "forgetful": lambda s: s.group_by("k", d="v % 20").agg(n=ps.count(), last=ps.last("v")).retain("4 seconds"),
}  # fmt: skip


def an_app(folder: Path, *views: str) -> ps.App:
    app = ps.App("audited")
    events = app.stream(
        "events", ps.files(folder), schema="k string, v int, x double, at timestamp", event_time="at",
        watermark=ps.bounded("3 seconds", idle=None),
    )  # fmt: skip
    for name in views or VIEWS:
        app.view(name, VIEWS[name](events))
    return app


class Feed:
    """Files of events in disorder, some of them far too late."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.folder, self.chance, self.number, self.time = folder, random.Random(seed), 0, 0.0

    def write(self, count: int = 40) -> None:
        lines = []
        for _ in range(count):
            self.time += self.chance.random()
            late = self.chance.choice([0, 0, 0, 1, 4, 15, 60])
            at = show_instant(BEGIN + int((self.time - late * self.chance.random()) * 1_000_000))
            row = {"k": self.chance.choice("abc"), "v": self.chance.randrange(100), "x": self.chance.random(), "at": at}
            lines.append(json.dumps(row))
        self.number += 1
        put(self.folder, self.number, lines)


def put(folder: Path, number: int, lines: list[str]) -> None:
    """Another file of lines, which appears whole."""
    path = folder / f"{number:04}.json"
    path.with_suffix(".tmp").write_text("\n".join(lines) + "\n")
    path.with_suffix(".tmp").rename(path)


@contextmanager
def running(app: ps.App, state: Path, spark: Any) -> Iterator[Run]:
    run = app.start(state, spark=spark, tick=3600.0)
    try:
        run.catch_up()
        yield run
    finally:
        run.stop()


def audited(run: Run, app: ps.App, view: str, **options: Any) -> AuditResult:
    return Audit(run.spark, run.store, app.streams, app.views, run.history).run(view, **options)


def fed(spark: Any, tmp_path: Path, seed: int, *views: str, epochs: int = 5) -> tuple[ps.App, Path]:
    """An app that has run for some epochs."""
    feed, app, state = Feed(tmp_path / "events", seed), an_app(tmp_path / "events", *views), tmp_path / "state"
    for number in range(epochs):
        feed.write()
        if number == 0:
            run = app.start(state, spark=spark, tick=3600.0)
        run.catch_up()
    run.stop()
    return app, state


def test_what_is_right_is_found_right_as_live_and_after_a_batch_run(spark, tmp_path):
    feed, app = Feed(tmp_path / "events", 1), an_app(tmp_path / "events")
    feed.write()
    with running(app, tmp_path / "state", spark) as run:
        for _ in range(4):
            feed.write()
            run.catch_up()
        assert run.store.counters()["events.late"] > 0  # else lateness would not be tried
        for view in app.views:
            found = audited(run, app, view)
            assert (found.unable, found.problems, found.shown, found.differences) == (None, [], [], 0), view
            assert found.rows > 0
            assert found.events == run.store.counters()["events.events"]
        list(batch(run))
        for _ in range(3):
            feed.write()
            run.catch_up()
        for view in ("session", "sliding", "total", "forgetful"):
            found = audited(run, app, view)
            assert (found.unable, found.problems, found.shown, found.differences) == (None, [], [], 0), view


def test_a_view_that_forgets_keys_is_right_after_the_end_of_input_and_cannot_be_told_after_another_retention(
    spark, tmp_path
):
    app, state = fed(spark, tmp_path, 6, "forgetful")
    with running(app, state, spark) as run:
        run.drain()
        before = run.store.query("SELECT * FROM forgetful ORDER BY k, d").rows()
        found = audited(run, app, "forgetful")
        assert (found.unable, found.problems, found.shown, found.differences) == (None, [], [], 0)
        assert 0 < found.rows < 60
        list(batch(run, ["forgetful"], late="as-live"))
        assert run.store.query("SELECT * FROM forgetful ORDER BY k, d").rows() == before
    app = an_app(tmp_path / "events")
    app.views = {"forgetful": app.views["forgetful"].retain("9 seconds")}
    with running(app, state, spark) as run:
        assert "it had another retention" in str(audited(run, app, "forgetful").unable)
        list(batch(run, ["forgetful"], whole=True))
        found = audited(run, app, "forgetful")
        assert (found.unable, found.problems, found.shown, found.differences) == (None, [], [], 0)


def test_a_wrong_row_a_missing_one_and_one_too_many_are_found(spark, tmp_path):
    app, state = fed(spark, tmp_path, 2, "fixed")
    corrupt(state)
    with running(app, state, spark) as run:
        found = audited(run, app, "fixed")
        assert found.differences == 3
        assert sorted(row.kind for row in found.shown) == ["differs", "extra", "missing"]
        (wrong,) = [row for row in found.shown if row.kind == "differs"]
        assert wrong.values == {"n": (wrong.values["n"][1] + 1, wrong.values["n"][1])}
        assert {event["k"] for event in wrong.events} == {wrong.key["k"]}
        assert audited(run, app, "fixed", sample=0.0001).differences == 0
        as_of = audited(run, app, "fixed", as_of=found.commit - 1)
        assert as_of.unable is None
        assert 0 < as_of.rows < found.rows


CORRUPT = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
rows = store.execute("SELECT * FROM __view_fixed ORDER BY __end, __start, __key").fetchall()
names = [each[1] for each in store.execute("PRAGMA table_info(__view_fixed)")]
end, start, key = (names.index(name) for name in ("__end", "__start", "__key"))
at = " WHERE __end = ? AND __start = ? AND __key = ?"
store.execute("UPDATE __view_fixed SET n = n + 1" + at, [rows[0][place] for place in (end, start, key)])
store.execute("DELETE FROM __view_fixed" + at, [rows[1][place] for place in (end, start, key)])
other = list(rows[2])
other[end] -= 600_000_000
other[start] -= 600_000_000
store.execute("INSERT INTO __view_fixed VALUES (" + ", ".join("?" * len(other)) + ")", other)
store.commit()
"""


def corrupt(state: Path) -> None:
    """Changes the store behind everybody's back, in another process: one row changed, one gone, one too many."""
    subprocess.run([sys.executable, "-c", CORRUPT, str(state / "store.db")], check=True)


def test_a_damaged_file_of_the_history_and_another_definition_are_found(spark, tmp_path):
    app, state = fed(spark, tmp_path, 3, "fixed", epochs=2)
    (file,) = sorted((state / "history").rglob("*.parquet"))[:1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    other = an_app(tmp_path / "events", "fixed")
    other.views["fixed"] = (
        other.streams["events"]
        .group_by("k")
        .window(ps.fixed("10 seconds"))
        .agg(n=ps.count(), total=ps.sum("x"), m=ps.avg("v"))
    )
    with running(app, state, spark) as run:
        found = audited(run, app, "fixed")
        assert "its checksum is" in found.problems[0]
        found = Audit(spark, run.store, other.streams, other.views, run.history).run("fixed", checksums=False)
        assert "the definition differs" in found.problems[0]


def test_an_audit_says_why_it_cannot_be_made(spark, tmp_path):
    app, state = fed(spark, tmp_path, 4, "fixed", epochs=2)
    with running(app, state, spark) as run:
        run.rest_view("fixed")
        run.wake_view("fixed", app.views["fixed"])
        assert "it was suspended" in str(audited(run, app, "fixed").unable)
        list(batch(run))
        assert audited(run, app, "fixed").unable is None
    with pytest.raises(ps.PenstockError, match="view 'other'"):
        Audit(spark, Reader(state), app.streams, app.views, None).run("other")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(100 if os.environ.get("PENSTOCK_DEEP") == "1" else 1))
def test_after_every_commit_a_view_is_what_the_past_gives_under_the_recorded_decisions(spark, tmp_path, seed):
    chance = random.Random(seed)
    names = chance.sample(sorted(VIEWS), 2)
    feed, app = Feed(tmp_path / "events", seed), an_app(tmp_path / "events", *names)
    feed.write()
    tables: dict[int, dict[str, list[tuple[Any, ...]]]] = {}
    with running(app, tmp_path / "state", spark) as run:
        for number in range(4):
            if number == 2 and chance.random() < 0.5:
                list(batch(run))
            feed.write(chance.choice([1, 10, 60]))
            run.catch_up()
            last = run.store.last()
            assert last is not None
            tables[last.number] = {name: rows_of(run.store.query(f"SELECT * FROM {name}")) for name in names}
        past = Recomputation(spark, run.store, app.streams, app.views, run.history)
        for commit, found in tables.items():
            for name in names:
                assert rows_of(past.at(name, commit)) == found[name], (name, commit)
        for name in names:
            assert Audit(spark, run.store, app.streams, app.views, run.history).run(name).is_right


def rows_of(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in table.iter_rows()), key=repr
    )
