"""Savepoints of a running app on Spark: restored elsewhere, it ends with what the uninterrupted run has."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import PenstockError
from penstock.history.savepoints import Savepoint, find, restore
from penstock.model.time import instant
from penstock.runtime.run import Run
from penstock.store import StoreError
from tests import outbox

pytestmark = pytest.mark.xdist_group("spark")
FILES, LINES = 11, 40  # Spark compacts its log of files at the tenth


def make(root: Path, sink: Path | None = None) -> App:
    app = App("shop")
    visits = app.stream(
        "visits", ps.files(root / "in", format="csv", files_per_epoch=1), schema="page string, ms int, at timestamp",
        event_time="at", watermark=ps.bounded("5 seconds"), id="concat(page, string(ms))",
    )  # fmt: skip
    view = visits.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))
    app.view("by_page", view)
    app.view("sessions", visits.group_by("page").window(ps.session("7 seconds")).agg(n=ps.count()))
    if sink is not None:
        app.sink("by_page", ps.to_jsonl(sink))
    return app


def write(root: Path, files: int = FILES) -> None:
    """Files of visits, some of them late or twice; each file is an epoch."""
    chance = random.Random(7)
    (root / "in").mkdir()
    for number in range(files):
        rows = []
        for line in range(LINES):
            second = number * 3 + chance.randint(-9, 3)
            at = f"2024-05-01T12:{10 + second // 60:02}:{second % 60:02}Z"
            rows.append(f"{chance.choice('abc')},{chance.choice([line, number * LINES + line])},{at}")
        file = root / "in" / f"{number:03}.csv"
        file.write_text("\n".join(rows))
        os.utime(file, (number + 1e9, number + 1e9))  # Spark reads files in the order of their times


def begin(app: App, directory: Path, spark) -> Run:
    return app.start(directory, spark=spark, tick=3600.0, clock=lambda: instant("2024-05-01T13:00:00Z"))


def result(run: Run) -> list[object]:
    """All that there is at the end: the views, what was counted, and the last epoch."""
    views = [run.store.query(f"SELECT * FROM {name} ORDER BY 1, 2, 3").rows() for name in run.views]
    epochs = run.store.query("SELECT epoch, offsets FROM __progress").rows()
    panes = outbox.panes(run.store).select("id", "view", "key", "start", "values", "index").rows()
    return [*views, run.store.counters(), epochs, panes]


def go_on(app: App, directory: Path, spark) -> list[object]:
    run = begin(app, directory, spark)
    try:
        run.catch_up()
        return result(run)
    finally:
        run.stop()


def test_a_restored_app_ends_where_the_uninterrupted_one_does(tmp_path, spark):
    write(tmp_path)
    state, chance, points = tmp_path / "state", random.Random(5), list[Savepoint]()
    run = begin(make(tmp_path, tmp_path / "out"), state, spark)
    try:
        while len(points) < 3 or points[-1].commit < FILES:
            points.append(run.savepoint(f"p{len(points)}"))
            run.wait(chance.uniform(0.0, 0.5))
        with pytest.raises(StoreError, match="is in use"):
            restore(points[0], state, force=True)
        called = [sys.executable, "-m", "penstock.cli", "savepoint", "create", "other", "--dir", str(state)]
        subprocess.run(called, check=True, capture_output=True)
        run.catch_up()
        whole = result(run)
    finally:
        run.stop()
    assert points[0].app == "shop"
    assert find("other", state).commit == FILES
    commits = [point.commit for point in points]
    assert commits == sorted(commits)
    between = [point for point in points if 0 < point.commit < FILES]
    assert between, "no savepoint was taken between two epochs"
    first = points[0] if points[0].commit == 0 else between[0]
    for point in {p.name: p for p in (first, chance.choice(between))}.values():
        there = tmp_path / f"restored-{point.name}"
        restore(point, there)
        assert go_on(make(tmp_path, there / "out"), there, spark) == whole, point


def test_an_app_that_is_restored_in_place_is_refused_while_its_sink_is_ahead(tmp_path, spark):
    write(tmp_path, 4)
    state = tmp_path / "state"
    run = begin(make(tmp_path, tmp_path / "out"), state, spark)
    try:
        while run.store.query("SELECT max(number) FROM __commits").item() is None:
            run.wait(0.01)
        point = run.savepoint("early")
        run.catch_up()
        whole = result(run)
    finally:
        run.stop()
    restore(point, state, force=True)
    with pytest.raises(PenstockError, match="restored from an older copy"):
        begin(make(tmp_path, tmp_path / "out"), state, spark)
    assert go_on(make(tmp_path), state, spark) == whole
