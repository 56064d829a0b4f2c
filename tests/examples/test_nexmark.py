"""Nexmark's queries on Spark, all in one app, against DuckDB over the same events at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from examples.nexmark.events import Nexmark
from examples.nexmark.oracle import Oracle
from examples.nexmark.queries import ROWS, VIEWS, streams
from penstock.engine.run import Run
from penstock.kernel.local import table_of
from penstock.model.time import instant
from penstock.testing import Result
from tests.comparison import same

EVENTS, FILES = 4_000, 4
#: Views that others read: their windows must have fired.
BELOW = ("q5_counts", "q5_levels", "q7_prices")


class Clock:
    """It stands until it is moved."""

    now = instant("2015-07-15T01:00:00Z")

    def __call__(self) -> int:
        return self.now


class Answers:
    """What the app has at the end, and what DuckDB says."""

    def __init__(self, root: Path, spark: object) -> None:
        self.root = root
        for _ in Nexmark(rate=100, disorder=50).write(root, EVENTS, FILES):
            pass
        self.oracle, clock = Oracle(root), Clock()
        app = ps.App("nexmark")
        found = streams(app, lambda name: ps.files(str(root / name), files_per_epoch=1))
        for name, query in ROWS.items():
            app.sink(query(found), ps.to_jsonl(root / "out" / name), name=name)
        for query in VIEWS.values():
            query(found)
        self.run: Run = app.run(root / "state", spark=spark, clock=clock, tick=0.2).start()
        self.run.catch_up()
        clock.now += 3_600_000_000  # the streams are idle by now: time goes on without them, and windows end
        while not self.is_done():
            self.run.wait(0.1)

    def is_done(self) -> bool:
        """Whether the windows of views over views are final, and sinks have all."""
        store = self.run.store
        open_windows = sum(store.query(f"SELECT count(*) FROM {name} WHERE NOT final").item() for name in BELOW)
        newest = store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
        return not open_windows and all(at == newest for at in self.run.delivery.positions.values())

    def view(self, name: str) -> list[dict[str, object]]:
        kept = self.run.engine.views[name].plan
        rows = table_of(kept, self.run.store.state(name).table())
        return Result(kept.written, (), tuple(rows), (), kept.view).table

    def rows(self, name: str) -> list[dict[str, object]]:
        lines = [line for file in sorted((self.root / "out" / name).glob("*.jsonl")) for line in file.open()]
        return [json.loads(line) for line in lines]

    def expected(self, name: str) -> pl.DataFrame:
        return self.oracle.answer(name)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Iterator[Answers]:
    found = Answers(tmp_path_factory.mktemp("nexmark"), spark)
    yield found
    found.run.stop()
    found.oracle.close()


def test_no_event_is_late_or_dead(answers: Answers) -> None:
    counters = answers.run.store.counters()
    assert sum(counters[f"{name}.events"] for name in ("persons", "auctions", "bids")) == EVENTS
    assert not any(counters.get(f"bids.{kind}", 0) for kind in ("late", "dead", "duplicate"))


@pytest.mark.parametrize("name", [*ROWS, *VIEWS])
def test_a_query_gives_what_duckdb_gives(answers: Answers, name: str) -> None:
    expected = answers.expected(name)
    got = answers.rows(name) if name in ROWS else answers.view(name)
    compare(got, expected)


def compare(got: list[dict[str, object]], expected: pl.DataFrame) -> None:
    names = expected.columns
    left = sorted(([plain(row[name]) for name in names] for row in got), key=repr)
    right = sorted(([plain(value) for value in row] for row in expected.rows()), key=repr)
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        assert same(a, b), f"got {a}, expected {b}"


def plain(value: object) -> object:
    """A value as both sides write it: times to the millisecond, sets in order."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > 18 and value[4] == "-" and value[10] in "T ":
        return datetime.fromisoformat(value).replace(tzinfo=None).isoformat(timespec="milliseconds")
    if isinstance(value, list):
        return sorted(value, key=repr) if value and isinstance(value[0], str) else value
    return value
