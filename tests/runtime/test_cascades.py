"""Views over views in the engine, on a store: each takes its step in the commit of those below it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import cli
from penstock.errors import DefinitionError
from penstock.kernel.local import events_frame
from penstock.model.changes import all_below, origins
from penstock.model.commits import Event
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.store import SqliteStore
from tests.outbox import panes
from tests.runtime.test_together import Frame, compare
from tests.strategies import cascades, cases, scripts

BIDS = ps.stream("bids", schema="auction bigint, at timestamp", event_time="at", watermark=ps.bounded("1 second"))
COUNTS = BIDS.group_by("auction").window(ps.fixed("10 seconds")).agg(n=ps.count())
COUNTS = COUNTS.trigger(ps.on_time(early=ps.each())).retracting()
LEVELS = COUNTS.changes("counts").group_by("n").agg(windows=ps.count()).retracting()
MOST = COUNTS.changes("counts").window(ps.window_of()).agg(most=ps.max("n"))


@cases(40, deep=60)
@given(cascades(), st.data())
def test_all_views_of_a_cascade_give_what_the_reference_gives(view, data):
    assume(len(origins(view)) == 1)
    script = data.draw(scripts(view, longest=6))
    note("\n".join(map(repr, [view, *script.steps])))
    compare({**all_below(view), "top": view}, script)


class Bids:
    """An engine on a store, and epochs of bids (auction, second)."""

    def __init__(self, directory: Path, *names: str) -> None:
        self.directory, self.count, self.epochs = directory, 0, 0
        self.open(*names)

    def open(self, *names: str) -> None:
        known = {"counts": COUNTS, "levels": LEVELS, "most": MOST}
        self.store = SqliteStore.open(self.directory)
        self.store.lock()
        self.engine = Engine({"bids": BIDS}, self.store, 0, lambda name: True)
        self.engine.registry.keep({name: known[name] for name in names})

    def add(self, *bids: tuple[int, int]) -> None:
        columns = needed(BIDS, self.engine.registry.lowered)
        events = [
            Event("bids", {"auction": a, "at": at * 1_000_000}, 0, self.count + i) for i, (a, at) in enumerate(bids)
        ]
        self.count, self.epochs = self.count + len(events), self.epochs + 1
        rows = events_frame(BIDS, events, 0).select(*columns, "__partition", "__offset")
        source = EpochOrigin("query", self.epochs, str(self.epochs))
        self.engine.epoch("bids", columns, Frame(rows.to_arrow()), source, 0)

    def table(self, sql: str) -> list[tuple[object, ...]]:
        return sorted(self.store.query(sql).rows())


def test_a_view_that_begins_above_another_begins_with_what_that_shows(tmp_path):
    bids = Bids(tmp_path, "counts")
    bids.add((1, 1), (1, 2), (2, 3))
    bids.add((1, 11), (3, 12))  # the first window is final, the second has shown early panes
    bids.engine.registry.keep({"levels": LEVELS, "most": MOST})
    bids.add((3, 13))
    assert bids.table("SELECT n, windows FROM levels") == [(1, 2), (2, 2)]
    assert bids.table("SELECT most FROM most") == [(2,), (2,)]
    outbox = panes(bids.store).filter(pl.col("view").is_in(["levels", "most"])).select("view", "final")
    assert not outbox["final"].sum()  # what was over does not fire again
    bids.store.close()
    bids.open("counts", "levels", "most")
    bids.add((2, 14), (4, 25))
    assert bids.table("SELECT n, windows FROM levels") == [(1, 4), (2, 2)]


def test_a_process_that_dies_before_the_first_step_loses_nothing_of_the_beginning(tmp_path):
    bids = Bids(tmp_path, "counts")
    bids.add((1, 1), (1, 2), (2, 3))
    bids.engine.registry.keep({"levels": LEVELS})
    bids.store.close()
    bids.open("counts", "levels")
    bids.add((5, 4))
    assert bids.table("SELECT n, windows FROM levels") == [(1, 2), (2, 1)]


def test_late_panes_are_kept_with_the_view_that_missed_them(tmp_path):
    late = COUNTS.allow_late("1 minute")
    above = late.changes("counts").window(ps.fixed("10 seconds")).agg(n=ps.sum("n"))
    store = SqliteStore.open(tmp_path)
    store.lock()
    bids = Bids.__new__(Bids)
    bids.store, bids.count, bids.epochs = store, 0, 0
    bids.engine = Engine({"bids": BIDS}, store, 0, lambda name: True)
    bids.engine.registry.keep({"counts": late, "above": above})
    bids.add((1, 1), (1, 30))
    bids.add((1, 2))
    rows = store.query("SELECT kind, stream, view, row FROM __refused ORDER BY row").rows()
    assert [row[:3] for row in rows] == [("late", "counts", "above")] * 2
    assert store.counters()["counts.late"] == 2
    assert bids.table("SELECT n FROM above") == [(1,), (1,)]


def test_an_event_that_is_late_for_two_views_is_one_late_event(tmp_path):
    store = SqliteStore.open(tmp_path)
    store.lock()
    bids = Bids.__new__(Bids)
    bids.store, bids.count, bids.epochs = store, 0, 0
    bids.engine = Engine({"bids": BIDS}, store, 0, lambda name: True)
    bids.engine.registry.keep({"counts": COUNTS, "prices": replace(COUNTS, windows=ps.fixed("5 seconds"))})
    bids.add((1, 1), (1, 60))
    bids.add((1, 2), (1, 61))
    counters = store.counters()
    assert (counters["bids.late"], counters["bids.late_events"]) == (2, 1)
    assert store.query("SELECT late_events, late_pairs FROM __commits WHERE number = 2").row(0) == (1, 2)
    text = CliRunner().invoke(cli, ["status", "--dir", str(tmp_path)]).output
    assert re.search(r"late +1 \(2 by view\)", text), text


def test_what_others_read_is_not_taken_away(tmp_path):
    bids = Bids(tmp_path, "counts", "levels")
    for take in (bids.engine.registry.drop, bids.engine.registry.rest):
        with pytest.raises(DefinitionError, match="'counts' is read by 'levels'"):
            take("counts")
    bids.engine.registry.drop("levels")
    bids.engine.registry.drop("counts")
    with pytest.raises(DefinitionError, match="reads the view 'counts', which does not exist"):
        bids.engine.registry.keep({"levels": LEVELS})
    other = replace(COUNTS, windows=ps.fixed("5 seconds"))
    bids.engine.registry.keep({"counts": other})
    with pytest.raises(DefinitionError, match="which is another view"):
        bids.engine.registry.keep({"levels": LEVELS})


def test_what_needs_spark_is_refused_above_a_view(tmp_path, spark):
    bids = Bids(tmp_path, "counts")
    above = COUNTS.changes("counts").group_by(k="soundex(CAST(n AS STRING))").agg(m=ps.count())
    with pytest.raises(DefinitionError, match="needs Spark, and a view over the view 'counts' is computed without it"):
        bids.engine.registry.keep({"above": above})
    assert isinstance(bids.store.query("SELECT 1"), pl.DataFrame)
