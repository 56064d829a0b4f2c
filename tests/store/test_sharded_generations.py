"""Random views: a generation that lacks some windows is swapped in with the same panes and rows wherever it lies."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.fire import pane_schema
from penstock.kernel.plan import Plan, nothing
from penstock.kernel.step import Change
from penstock.model.time import BEGINNING
from penstock.state.layout import FINAL
from penstock.state.segment import ALL
from penstock.store import Commit, SqliteStore
from penstock.store.generations import Origin, Scope, with_panes
from penstock.store.segment_differences import current_rows
from penstock.testing import replay
from tests.kernel.test_against_reference import cut_with
from tests.outbox import panes
from tests.store.engine import NAME, StoreEngine
from tests.store.sharded import table
from tests.strategies import cases, scripts, seconds, views


def reopened(view: ps.View, directory: Path) -> SqliteStore:
    store = SqliteStore.open(directory)
    store.lock()
    store.prepare({NAME: Plan(view)})
    return store


def thinned(store: SqliteStore, chance: random.Random) -> Change:
    """Some windows of a view in segments, as a generation gives them."""
    view = store.sharded(NAME)
    assert view is not None
    rows = current_rows(view, ALL)
    rows = rows.filter(pl.Series([chance.random() < 0.7 for _ in range(rows.height)], dtype=pl.Boolean))
    return replace(
        with_panes(view.plan, nothing(pane_schema(view.plan))),
        live=rows.filter(~pl.col(FINAL)).drop(FINAL),
        closed=rows.filter(FINAL).drop(FINAL),
    )


def swapped(store: SqliteStore, plan: Plan, change: Change) -> tuple:
    """The differences, panes and rows that a swap gives."""
    hidden, mark = store.generations.hidden(NAME), store.view_times().get(NAME, BEGINNING)
    store.generations.begin(hidden, plan)
    store.generations.load(hidden, change)
    difference = store.generations.compare(NAME, hidden, Scope(), 1000)
    store.generations.swap(NAME, hidden, Commit("swap", 0, view_times={NAME: mark}), Origin("batch", 1), Scope())
    store.generations.end(hidden)
    fired = sorted(map(repr, panes(store).drop("id").rows()))  # as text, because NaN is not NaN
    found = difference, fired, sorted(map(repr, table(store, NAME).rows()))
    store.close()
    return found


def compare(view: ps.View, data: st.DataObject) -> None:
    script, seed = data.draw(scripts(view)), data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    with tempfile.TemporaryDirectory() as folder:
        stores = []
        for place, shards in (("tables", None), ("segments", lambda: 3)):
            replay(view, script, StoreEngine(view, Path(folder) / place, cut_with(seed), None, shards))
            stores.append(reopened(view, Path(folder) / place))
        change = thinned(stores[1], random.Random(seed))
        in_tables, in_segments = (swapped(store, Plan(view), change) for store in stores)
    assert in_segments == in_tables


@cases(40, deep=40)
@given(views(), st.data())
def test_any_view_is_swapped_with_the_same_panes_and_rows(view, data):
    compare(view, data)


@cases(20, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_are_swapped_with_the_same_panes_and_rows(view, data):
    compare(view, data)
