"""Nexmark's queries on Spark, all in one app, against DuckDB over the same events at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from examples.nexmark.app import nexmark
from examples.nexmark.events import Nexmark
from examples.nexmark.oracle import Oracle
from penstock.kernel.local import table_of
from penstock.model.time import instant
from penstock.runtime.run import Run
from penstock.store.base import REFUSALS
from penstock.testing import Result
from tests.examples.answers import compare
from tests.strategies import DEEP

EVENTS, FILES = 3_000, 3
#: Three seconds: the watermark waits for four. Files are cut inside of it.
DISORDER = 300
LOGS = ("persons", "auctions", "bids")
#: Views that others read: their windows must have fired.
BELOW = ("q5_counts", "q5_levels")

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not DEEP, reason="for the deep run; test_nexmark_model compares twenty of them without Spark"),
]


class Clock:
    """It stands until it is moved."""

    now = instant("2015-07-15T01:00:00Z")

    def __call__(self) -> int:
        return self.now


class Answers:
    """What the app has at the end, and what DuckDB says."""

    def __init__(self, root: Path, spark: object) -> None:
        self.root = root
        for _ in Nexmark(rate=100, disorder=DISORDER).write(root, EVENTS, FILES):
            pass
        self.oracle, clock = Oracle(root), Clock()
        app, self.flows = nexmark(root, files_per_epoch=1)
        for name, flow in self.flows.items():
            app.sink(flow, ps.to_jsonl(root / "out" / name), name=name)
        self.run: Run = app.start(root / "state", spark=spark, clock=clock, tick=0.5)
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
        kept = self.run.views[name].plan
        rows = table_of(kept, self.run.store.state(name).table())
        return Result(kept.written, (), tuple(rows), (), kept.view).table

    def rows(self, name: str) -> list[dict[str, object]]:
        lines = [line for file in sorted((self.root / "out" / name).glob("*.jsonl")) for line in file.open()]
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Iterator[Answers]:
    found = Answers(tmp_path_factory.mktemp("nexmark"), spark)
    yield found
    found.run.stop()
    found.oracle.close()


def test_no_event_is_late_or_dead_and_each_log_came_in_several_epochs(answers: Answers) -> None:
    counters = answers.run.store.counters()
    assert sum(counters[f"{name}.events"] for name in LOGS) == EVENTS
    assert not any(counters.get(f"{name}.{kind}", 0) for name in answers.run.streams for kind in REFUSALS)
    epochs = answers.run.store.query("SELECT count(*) FROM __commits WHERE kind = 'epoch' GROUP BY query")
    assert sum(many >= FILES for (many,) in epochs.iter_rows()) >= len(LOGS)


@pytest.mark.parametrize("name", [f"q{number}" for number in range(23)])
def test_a_query_gives_what_duckdb_gives(answers: Answers, name: str) -> None:
    compare(answers.rows(name) if name in answers.flows else answers.view(name), answers.oracle.answer(name))
