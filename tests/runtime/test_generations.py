"""Generations on real files and real queries: replay, batch, replace, back-fill, with late events and a swap."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.history.batch.generation import Generation, Reach
from penstock.history.batch.log_past import From
from penstock.history.batch.runs import back_fill, batch, replace, replay, rollback
from penstock.model.time import instant, show_instant
from penstock.runtime.commit.generations import GenerationStart
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from penstock.testing import TestStream
from penstock.testing import run as run_view
from tests import outbox
from tests.runtime.test_run import Clock

SCHEMA = "page string, ms int, at timestamp"
START = instant("2024-05-01T12:00:00Z")
SECOND = 1_000_000
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(root: Path, name: str, rows: list[tuple[str, int, float]]) -> None:
    """A file of rows appears whole: page, ms, seconds after the start."""
    lines = [
        json.dumps({"page": page, "ms": ms, "at": show_instant(START + round(at * SECOND))}) for page, ms, at in rows
    ]
    hidden = root / f".{name}"
    hidden.write_text("\n".join(lines) + "\n")
    hidden.rename(root / "in" / f"{name}.json")


def make(root: Path, keep: str = "all", **views: object) -> tuple[App, ps.Stream]:
    app = App("test")
    stream = app.stream(
        "visits", ps.files(root / "in"), schema=SCHEMA, event_time="at", watermark=ps.bounded("5 seconds"), keep=keep
    )
    app.view("by_page", stream.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms")))
    return app, stream


def started(app: App, root: Path, spark) -> Run:
    return app.start(root / "state", spark=spark, tick=3600.0, clock=Clock())


def table(run: Run, sql: str) -> list[tuple]:
    return sorted(run.store.query(sql).rows())


LATE = [("/a", 1, 1.0), ("/a", 2, 31.0)], [("/a", 4, 2.0), ("/b", 8, 32.0)]  # the third comes 20 seconds too late


@pytest.mark.parametrize("keep", ["none", "all"])
def test_a_replay_counts_what_live_had_to_drop(root, spark, keep):
    app, _ = make(root, keep)
    run = started(app, root, spark)
    try:
        for number, rows in enumerate(LATE):
            put(root, f"f{number}", rows)
            run.catch_up()
        live = table(run, "SELECT page, n, ms, final FROM by_page")
        assert live == [("/a", 1, 1, 1), ("/a", 1, 2, 0), ("/b", 1, 8, 0)]
        (outcome,) = replay(run, "visits", From(), "by_page")
        assert outcome.rows == 4
        assert table(run, "SELECT page, n, ms, final FROM by_page") == [
            ("/a", 1, 2, 0), ("/a", 2, 5, 1), ("/b", 1, 8, 0)
        ]  # fmt: skip
        put(root, "f9", [("/b", 16, 33.0), ("/a", 1, 60.0)])
        run.catch_up()
        assert table(run, "SELECT page, n, ms, final FROM by_page") == [
            ("/a", 1, 1, 0), ("/a", 1, 2, 1), ("/a", 2, 5, 1), ("/b", 2, 24, 1)
        ]  # fmt: skip
        corrections = [json.loads(p)["n"] for p in outbox.panes(run.store).filter(index=1)["values"]]
        assert corrections == [2]
    finally:
        run.stop()


def truth(view: ps.View, rows: list[tuple[str, int, float]]) -> list[tuple]:
    """What a view has after all events in one commit: nothing is late."""
    stream = view.input.sources[0]
    script = TestStream(stream, clock="2024-05-01T13:00:00Z").add(
        *((page, ms, START + round(at * SECOND)) for page, ms, at in rows)
    )
    found = run_view(view, script, engine="reference").table
    return sorted(tuple(shown(value) for name, value in row.items() if name != "final") for row in found)


def shown(value: object) -> object:
    return value.strftime("%Y-%m-%d %H:%M:%S.%f").removesuffix(".000000") if isinstance(value, datetime) else value


def scattered(seed: int, count: int, seconds: float, late: float = 0.2) -> list[tuple[str, int, float]]:
    """Events in disorder, some of them far too late."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        at = number * seconds / count - chance.uniform(0, 4)
        if chance.random() < late:
            at -= chance.uniform(10, 40)
        found.append((f"/{chance.randrange(4)}", chance.randrange(100), round(max(at, 0.0), 3)))
    return found


def columns(view: ps.View) -> str:
    return ", ".join(name for name in view.columns if name != "final")


KINDS = {
    "fixed": ps.fixed("10 seconds"),
    "sliding": ps.sliding("10 seconds", every="2 seconds"),
    "sessions": ps.session("2 seconds"),
    "counts": ps.count_window(7),
    "ever": ps.global_window(),
}


def test_after_a_batch_run_every_view_is_the_plain_truth_and_goes_on_exactly(root, spark, monkeypatch):
    app, stream = make(root)
    coded = stream.transform(lambda df: df.where("ms > 10")).group_by("page").window(KINDS["fixed"]).agg(n=ps.count())
    same = {"coded": stream.where("ms > 10").group_by("page").window(KINDS["fixed"]).agg(n=ps.count())}
    app.view("coded", coded)
    for name, window in KINDS.items():
        app.view(name, stream.group_by("page").window(window).agg(n=ps.count(), ms=ps.sum("ms"), first=ps.first("ms")))
    everything: list[tuple[str, int, float]] = []
    run = started(app, root, spark)
    try:
        for number in range(4 if DEEP else 2):
            for part in range(2):
                rows = [(p, ms, at + 100 * number) for p, ms, at in scattered(10 * number + part, 60, 30)]
                put(root, f"f{number}{part}", rows)
                run.catch_up()
                everything += rows
            outcomes = list(batch(run, part_rows=10**9 if number else 40))  # at first with an exchange by key
            assert {outcome.view for outcome in outcomes} == set(app.views)
            for name, view in app.views.items():
                found = table(run, f"SELECT {columns(view)} FROM {name}")
                assert found == truth(same.get(name, view), everything), (name, number)
        assert any(o.rows < len(everything) for o in outcomes if o.view == "fixed")  # only what was touched
        rows = [("/0", 1, 410.0), ("/1", 2, 411.0)]
        put(root, "last", rows)
        run.catch_up()
        for name, view in app.views.items():
            assert table(run, f"SELECT {columns(view)} FROM {name}") == truth(same.get(name, view), everything + rows)
    finally:
        run.stop()


def test_another_definition_takes_the_place_of_the_old_one_while_events_come(root, spark):
    app, stream = make(root)
    app.sink("by_page", ps.to_jsonl(root / "out"))
    run = started(app, root, spark)
    everything = scattered(1, 100, 60, late=0)
    coarse = stream.where("ms < 50").group_by("page").window(ps.fixed("20 seconds")).agg(n=ps.count(), ms=ps.sum("ms"))
    try:
        put(root, "a", everything[:50])
        run.catch_up()
        dry = replace(run, "by_page", coarse, dry=5)
        assert dry.commit is None
        assert dry.difference is not None
        assert dry.difference.total > dry.difference.rows.height == 5
        before = table(run, "SELECT * FROM by_page")

        def reach(begun: GenerationStart) -> Reach:
            put(root, "b", everything[50:])  # after the past has ended
            run.catch_up()
            assert table(run, "SELECT * FROM by_page") != before  # the old one goes on
            return Reach({"visits": [run.history.past(stream, begun.commit)]})

        Generation(run, "by_page", coarse, reach, "replace").run()
        assert run.store.views()["by_page"] == repr(coarse)
        assert table(run, f"SELECT {columns(coarse)} FROM by_page") == truth(coarse, everything)
        with pytest.raises(RunError, match="has the sink"):
            replace(run, "by_page", stream.group_by("page").agg(visits=ps.count()))
        _, view = rollback(run, "by_page")
        assert view == app.views["by_page"]
        assert table(run, f"SELECT {columns(view)} FROM by_page") == truth(view, everything)
    finally:
        run.stop()
    left = root / "state" / "generation-x"  # as a process that is killed leaves it
    left.mkdir()
    again = app.start(root / "state", spark=spark, tick=3600.0, clock=Clock())  # the store has the app's definition
    again.stop()
    assert not left.exists()


def test_a_new_view_begins_with_history_and_a_run_that_dies_leaves_no_trace(root, spark):
    app, stream = make(root)
    run = started(app, root, spark)
    everything = scattered(2, 100, 60)
    people = stream.group_by("page").window(ps.session("3 seconds")).agg(n=ps.count()).retracting()
    try:
        put(root, "a", everything)
        run.catch_up()

        def dies(begun: GenerationStart) -> Reach:
            raise RuntimeError("killed")

        with pytest.raises(RuntimeError, match="killed"):
            Generation(run, "people", people, dies, "back-fill").run()
        assert not run.groups.of("visits").engine.registry.generations
        assert "people" not in run.store.views()
        back_fill(run, "people", people)
        assert table(run, f"SELECT {columns(people)} FROM people") == truth(people, everything)
        assert outbox.panes(run.store).filter(view="people").height == 0  # what is long closed does not fire
        put(root, "b", [("/0", 1, 200.0), ("/0", 1, 300.0)])
        run.catch_up()
        retracts = outbox.panes(run.store).filter(view="people", kind="retract")
        assert not retracts.height
        hidden = "SELECT name FROM sqlite_schema WHERE instr(name, '~') > 0"
        assert run.store.query(hidden).height == 0
        assert not list((root / "state").glob("generation-*"))
    finally:
        run.stop()


HAMMER = """
import sys
from pathlib import Path
from penstock.store import Reader

directory, stop = Path(sys.argv[1]), Path(sys.argv[2])
reader, reads, before = Reader(directory), 0, {}
while not stop.exists():
    with reader.moment() as ask:
        truth = ask("SELECT value FROM __counters WHERE name = 'visits.events'", []).item()
        for view in ("by_page", "sessions", "counts", "ever"):
            n = ask(f"SELECT sum(n) FROM {view}", []).item()
            assert n == truth, f"{view} has {n} of {truth} events"
            for page, n in ask(f"SELECT page, sum(n) FROM {view} GROUP BY page", []).iter_rows():
                assert n >= before.get((view, page), 0), f"{view} {page} went down to {n}"
                before[view, page] = n
    reads += 1
print(reads)
"""


def test_readers_never_see_a_count_go_down_a_gap_or_a_double_while_generations_are_swapped(root, spark):
    app, stream = make(root)
    for name in ("sessions", "counts", "ever"):
        app.view(name, stream.group_by("page").window(KINDS[name]).agg(n=ps.count()))
    run = started(app, root, spark)
    stopping, written = threading.Event(), []

    def write() -> None:
        while not stopping.is_set():
            first = 10 * len(written)
            rows = [(f"/{n % 3}", n, n / 10) for n in range(first, first + 10)]
            put(root, f"f{len(written):05}", rows)
            written.append(rows)
            stopping.wait(0.3)

    writer = threading.Thread(target=write)
    writer.start()
    hammer = None
    try:
        while not run.store.counters().get("visits.events"):
            run.wait(0.05)
        command = [sys.executable, "-c", HAMMER, str(root / "state"), str(root / "stop")]
        hammer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        swaps = 0
        while swaps < (80 if DEEP else 9):
            swaps += len(list(batch(run)))
        stopping.set()
        writer.join()
        run.catch_up()
        (root / "stop").touch()
        out, error = hammer.communicate(timeout=60)
        assert hammer.returncode == 0, error
        assert int(out) > swaps
        everything = [row for rows in written for row in rows]
        for name, view in app.views.items():
            assert table(run, f"SELECT {columns(view)} FROM {name}") == truth(view, everything), name
    finally:
        stopping.set()
        writer.join()
        (root / "stop").touch()
        if hammer is not None:
            hammer.wait(60)
        run.stop()
