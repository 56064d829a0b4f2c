"""A store with some commits, written without Spark, and a shorthand for commands."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import penstock as ps
from penstock.cli import cli
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.step import step
from penstock.model.commits import Event
from penstock.model.time import BEGINNING, SECOND, instant
from penstock.model.watermarks import Tracker
from penstock.store import Commit, SqliteStore
from penstock.store.figures import Figures
from penstock.store.marks import Mark

NOON = instant("2024-05-01T12:00:00Z")
VISITS = ps.stream(
    "visits", schema="page string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"), max_ahead=None
)
BY_PAGE = VISITS.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count())

#: So many seconds an app of another process may take for something.
LONGEST = 300.0
APP = """
import penstock as ps

app = ps.App("shop")
visits = app.stream(
    "visits", ps.files("in"), schema="page string, at timestamp", event_time="at", watermark=ps.bounded("1 second")
)
app.view("by_page", visits.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count()))
"""


@pytest.fixture
def penstock() -> Callable[..., Result]:
    """Runs a command in this process."""
    return lambda *arguments: CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def app_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes an app's file."""

    def write(text: str = APP) -> Path:
        file = tmp_path / "app.py"
        file.write_text(text)
        return file

    return write


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app's directory after two epochs: four visits to two pages, one of them late, and a dead one."""
    path = tmp_path_factory.mktemp("shop")
    store = SqliteStore.open(path)
    store.lock()
    plan = Plan(BY_PAGE)
    store.prepare({"by_page": plan})
    tracker, now, mark = Tracker(VISITS.watermark), NOON, BEGINNING  # type: ignore[arg-type]
    late = {
        "stream": "visits",
        "view": "by_page",
        "partition": 0,
        "offset": 9,
        "at": NOON,
        "reason": "its window had closed",
    }
    dead = {**late, "view": None, "reason": "the row does not fit the stream's schema", "row": "{"}
    refused = [{}, {"late": pl.DataFrame([late]), "dead": pl.DataFrame([dead])}]
    for epoch, rows in enumerate(([("/a", 1), ("/b", 2), ("/a", 3)], [("/a", 12)])):
        events = [Event("visits", {"page": p, "at": NOON + at * SECOND}, 0, n) for n, (p, at) in enumerate(rows)]
        admitted = admit(VISITS, events_frame(VISITS, events, 0), now)
        tracker.advance(admitted.observed, now=now, caught_up=True)
        deltas = [reduce(plan, "visits", admitted.rows, mark).deltas]
        change = step(
            plan, deltas, store.state("by_page"), Time(mark, tracker.watermark, now, lambda percent: BEGINNING)
        )
        mark, now = tracker.watermark, now + 2 * SECOND
        counters = {f"visits.{kind}": frame.height for kind, frame in refused[epoch].items()}
        store.commit(
            Commit(
                "epoch", now, "query", epoch, str(epoch), {"by_page": change}, {"by_page": mark},
                {"visits": tracker.snapshot()}, refused[epoch], counters={"visits.events": len(rows), **counters},
                mark=Mark("visits"), figures=Figures(len(rows)),
            )
        )  # fmt: skip
    store.close()
    return path


def wait_for(what: Callable[[], bool], running: subprocess.Popen[Any]) -> None:
    """Waits for what an app in another process does."""
    end = time.monotonic() + LONGEST
    while not what():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
