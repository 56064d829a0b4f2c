"""Loops on Spark show what the run without Spark shows, after every epoch, whichever way their rounds are done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.runtime.derived.loops.frames import FrameMachine
from penstock.runtime.derived.loops.keys import KeyMachine
from penstock.runtime.run import Run
from penstock.testing import TestStream, iterate
from tests.faults.support import until

SCHEMA = "a bigint, b bigint"


class Smallest(ps.Loop):
    """The smallest vertex that edges lead to: components, by hand. Fails on the vertex 13, never ends on 66."""

    output = "vertex bigint, component bigint"

    def enter(self, event):
        yield event.a, ("edge", event.b)
        yield event.b, ("edge", event.a)

    def step(self, key, state, messages, round):
        if key == 13:
            raise ValueError("unlucky")
        if key == 66:
            return state, [(key, ("edge", key))]
        label, near = state or (key, ())
        told = set()
        for what, value in messages:
            if what == "edge" and value not in near:
                near = (*near, value)
                told.add(value)
        best = min([label, *(value for what, value in messages if what == "label")])
        if best < label or state is None:
            told = near
        return (best, near), [(other, ("label", best)) for other in sorted(told)]

    def show(self, key, state):
        return key, state[0]


class Feed:
    """Edges in files, an epoch each."""

    def __init__(self, root: Path) -> None:
        self.folder, self.files = root / "in", 0
        self.folder.mkdir()

    def write(self, edges) -> None:
        text = "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in edges)
        hidden = self.folder.parent / "writing"
        hidden.write_text(text)
        hidden.rename(self.folder / f"{self.files:04}.json")
        self.files += 1


def app_of(root: Path) -> tuple[App, ps.Stream, dict[str, ps.Stream]]:
    app = App("graph")
    edges = app.stream("edges", ps.files(root / "in"), schema=SCHEMA)
    loops = {
        "columns": app.iterate("columns", edges.where("a >= 0"), ps.connected_components("a", "b")),
        "by_key": app.iterate("by_key", edges.where("a >= 0"), Smallest, max_rounds=50),
    }
    for name, loop in loops.items():
        app.view(f"{name}_now", loop.group_by("vertex").agg(component=ps.max("component")))
    app.view("sizes", loops["columns"].group_by("component").agg(size=ps.count()))
    return app, edges, loops


EPOCHS = [
    [(1, 2), (3, 4), (-1, 7)],
    [(2, 3), (5, 6)],
    [(9, 8), (13, 1), (6, 9), (66, 4)],  # two of these edges are refused by the loop by key
    [(0, 9), (10, 10)],
]


@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_after_every_epoch_a_loop_shows_what_it_shows_without_spark(spark, tmp_path, monkeypatch, apart):
    if apart:  # events enter in many tasks; then one task does the rest, or every round is a job, cut into parts
        monkeypatch.setattr(KeyMachine, "most_events", 0)
        monkeypatch.setattr(FrameMachine, "most_events", 0)
        monkeypatch.setattr(FrameMachine, "most_messages", 0)
    app, edges, loops = app_of(tmp_path)
    feed, script = Feed(tmp_path), TestStream(edges)
    run = app.start(tmp_path / "run", spark=spark, tick=0.1)
    try:
        for number, epoch in enumerate(EPOCHS):
            feed.write(epoch)
            script = script.add(*epoch)
            run.catch_up()
            run.catch_up()
            for name, loop in loops.items():
                want = iterate(loop, script)
                rows = run.store.query(f"SELECT vertex, component FROM {name}_now WHERE component IS NOT NULL").rows()
                assert sorted(rows) == sorted(tuple(row.values()) for row in want.shown), (number, name)
            if number == 1:  # what it remembers is there for the next process
                run.stop()
                run = app_of(tmp_path)[0].start(tmp_path / "run", spark=spark, tick=0.1)
        sizes = run.store.query("SELECT component, size FROM sizes WHERE size > 0").rows()
        assert dict(sizes) == {0: 5, 1: 6, 10: 1}
        dead = run.store.query("SELECT reason FROM __refused WHERE stream = 'by_key' AND kind = 'dead'").rows()
        assert len(dead) == len(iterate(loops["by_key"], script).dead) == 2
        assert any("did not end within 50 rounds" in reason for (reason,) in dead)
    finally:
        run.stop()


def epochs_app(root: Path, called: list[tuple[int, int]], fail: Path, rule: object) -> App:
    app = App("told")
    edges = app.stream("edges", ps.files(root / "in"), schema=f"{SCHEMA}, n int, over boolean", epoch=rule)
    graph = app.iterate("graph", edges.where("NOT coalesce(over, false)"), ps.connected_components("a", "b"))
    app.view("labels", graph.group_by("vertex").agg(component=ps.max("component")))
    app.view("count", edges.group_by().agg(n=ps.count()))

    def over(epoch):
        if fail.exists():
            fail.unlink()
            raise OSError("told to fail")
        rows = epoch.query("SELECT count(*) FROM labels").item()
        called.append((epoch.number, rows))
        return {"vertices": rows}

    told = app.on_epoch("told", edges, over, output="vertices bigint")
    app.view("vertices", told.group_by("epoch").agg(vertices=ps.max("vertices"), rows=ps.count()))
    return app


@contextmanager
def running(app: App, root: Path, spark) -> Iterator[Run]:
    run = app.start(root / "run", spark=spark, tick=0.1)
    try:
        yield run
    finally:
        run.stop()


def write_rows(root: Path, number: int, *rows: tuple) -> None:
    lines = [json.dumps(dict(zip(("a", "b", "n", "over"), row, strict=False))) for row in rows]
    (root / "writing").write_text("".join(f"{line}\n" for line in lines))
    (root / "writing").rename(root / "in" / f"{number:04}.json")


def test_a_function_is_called_when_all_of_an_epoch_is_committed_and_its_rows_come_once(spark, tmp_path):
    (tmp_path / "in").mkdir()
    called: list[tuple[int, int]] = []
    fail = tmp_path / "fail"

    def app() -> App:
        return epochs_app(tmp_path, called, fail, ps.epochs("n", ends="over"))

    write_rows(tmp_path, 0, (1, 2, 7), (3, 4, 7), (5, 6, 8))
    with running(app(), tmp_path, spark) as run:
        run.wait_for_epoch("told", 7)
        assert called == [(7, 6)]  # a row of epoch 8 came: 7 is over
    fail.touch()  # the first call of the next one fails: it is called again
    write_rows(tmp_path, 1, (7, 8, 8), (0, 0, 8, True), (9, 10, 9))
    with running(app(), tmp_path, spark) as run:
        run.wait_for_epoch("told", 8)
        assert called == [(7, 6), (8, 10)]
        write_rows(tmp_path, 2, (11, 12, 8), (0, 0, 9, True))
        run.wait_for_epoch("told", 9)
        run.wait_through("edges", run.store.last().number)
        assert run.store.query("SELECT epoch, vertices, rows FROM vertices ORDER BY epoch").rows() == [
            (7, 6, 1), (8, 10, 1), (9, 12, 1),
        ]  # fmt: skip
        assert run.store.counters()["told.late_rows"] == 1


@pytest.mark.deep
def test_without_the_producers_epochs_each_commit_is_one(spark, tmp_path):
    (tmp_path / "in").mkdir()
    called: list[tuple[int, int]] = []
    with running(epochs_app(tmp_path, called, tmp_path / "fail", None), tmp_path, spark) as run:
        for number in range(3):
            write_rows(tmp_path, number, (number * 2, number * 2 + 1))
            until(lambda number=number: len(called) > number, run)
        assert [rows for _, rows in called] == [2, 4, 6]
        commits = run.store.query("SELECT \"commit\" FROM __epochs WHERE stream = 'edges' ORDER BY 1")
        assert [number for number, _ in called] == commits.to_series().to_list()
