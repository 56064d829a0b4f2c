"""Random views with all state in the store, reopened at every restart: panes, table and refusals are the reference's.

What each shape can reach: null and NaN keys – the bytes of keys; restarts – what is not written; lists and sketches –
state that is not a plain column; sessions that retract – ghosts; triggers in processing time – what is found due.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.model.reference import Reference
from penstock.testing import replay
from tests.comparison import differences
from tests.kernel.test_against_reference import cut_with
from tests.postgres import Postgres
from tests.store.engine import StoreEngine
from tests.strategies import RETENTIONS, SCHEMA, cases, scripts, seconds, views

_NUMBERS = itertools.count(1)


def compare(view: ps.View, data: st.DataObject, server: Postgres | None = None) -> None:
    script = data.draw(scripts(view))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    url = None if server is None else f"{server.url}?schema=r{os.getpid()}_{next(_NUMBERS)}"
    with tempfile.TemporaryDirectory() as directory:
        cut = cut_with(data.draw(st.integers(0, 1000)))
        got = replay(view, script, StoreEngine(view, Path(directory), cut, url))
    assert not (found := differences(expected, got)), "\n".join(found)


@cases(30, deep=40)
@given(views(), st.data())
def test_any_view_gives_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(30, deep=40)
@given(views(window=st.just(ps.global_window())).filter(lambda view: view.keys), RETENTIONS, st.data())
def test_views_that_forget_keys_give_the_same_panes_table_and_refusals(view, retention, data):
    compare(view.retain(retention), data)


@cases(12, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_give_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(30, deep=40)
@given(st.sampled_from(["id", "id % 3", "12 div v"]), seconds(0, 15), seconds(1, 40), st.data())
def test_ids_are_judged_alike_by_the_reference_and_by_the_ids_in_the_store(identity, delay, horizon, data):
    """Few ids, short horizons: ids come again in an epoch, in a later one, after a restart, after they expired."""
    stream = ps.stream(
        "s", schema=SCHEMA, event_time="at", watermark=ps.bounded(delay), id=identity, id_horizon=horizon,
        max_ahead="1 day",
    )  # fmt: skip
    compare(stream.group_by("k").agg(n=ps.count(), ids=ps.collect_list("id")), data)


@cases(12, deep=40)
@given(views(), st.data())
def test_any_view_gives_the_same_in_postgres(postgres, view, data):
    compare(view, data, postgres)


@cases(12, deep=40)
@given(views(window=st.just(ps.global_window())).filter(lambda view: view.keys), RETENTIONS, st.data())
def test_views_that_forget_keys_give_the_same_in_postgres(postgres, view, retention, data):
    compare(view.retain(retention), data, postgres)


@cases(8, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_give_the_same_in_postgres(postgres, view, data):
    compare(view, data, postgres)
