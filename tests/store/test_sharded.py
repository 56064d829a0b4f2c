"""Views whose state is in segments: the store lists them with each commit, and gives the kernel the same rows."""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.model.reference import Reference
from penstock.testing import TestStream, replay
from tests.comparison import differences
from tests.kernel.test_against_reference import cut_with
from tests.postgres import Postgres
from tests.store.engine import NAME, StoreEngine
from tests.strategies import SCHEMA, cases, scripts, seconds, views

_NUMBERS = itertools.count(1)


def compare(view: ps.View, data: st.DataObject, server: Postgres | None = None) -> None:
    script = data.draw(scripts(view))
    seed = data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    chance = random.Random(seed)
    expected = replay(view, script, Reference(view))
    url = None if server is None else f"{server.url}?schema=s{os.getpid()}_{next(_NUMBERS)}"
    with tempfile.TemporaryDirectory() as directory:
        engine = StoreEngine(view, Path(directory), cut_with(seed), url, lambda: chance.choice([1, 2, 5]))
        got = replay(view, script, engine)
    assert not (found := differences(expected, got)), "\n".join(found)


@cases(30, deep=40)
@given(views(), st.data())
def test_any_view_gives_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(12, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_give_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(6, deep=20)
@given(views(), st.data())
def test_views_in_postgresql_give_the_same_panes_table_and_refusals(postgres, view, data):
    compare(view, data, postgres)


@cases(30, deep=40)
@given(st.sampled_from(["id", "id % 3", "12 div v"]), seconds(0, 15), seconds(1, 40), st.data())
def test_ids_are_judged_alike_by_the_reference_and_by_ids_in_segments(identity, delay, horizon, data):
    stream = ps.stream(
        "s", schema=SCHEMA, event_time="at", watermark=ps.bounded(delay), id=identity, id_horizon=horizon,
        max_ahead="1 day",
    )  # fmt: skip
    compare(stream.group_by("k").agg(n=ps.count()), data)


STREAM = ps.stream("s", schema="k string, v int, at timestamp", event_time="at", watermark=ps.bounded("1 second"))


def test_a_view_in_segments_fires_otherwise_and_forgets_keys_after_a_change(tmp_path):
    """The state of the same values goes on under another trigger, and under a retention that comes later."""
    counts = STREAM.group_by("k").agg(n=ps.count())
    script = TestStream(STREAM).add({"k": "a", "v": 1, "at": 0}, {"k": "b", "v": 1, "at": 0})
    engine = StoreEngine(counts.trigger(ps.each()), tmp_path, shards=lambda: 2)
    for commit in script.commits():
        engine.commit(commit)
    engine.store.close()
    changed = counts.trigger(ps.after_count(3)).retracting().retain("1 minute")
    engine = StoreEngine(changed, tmp_path, shards=lambda: 2)
    state = engine.store.state(NAME)
    rows = state.kind("rows").all()
    assert sorted(rows.select("k", "n", "__new", "__index").rows()) == [("a", 1, 0, 1), ("b", 1, 0, 1)]
    assert rows["__touched"].null_count() == 0
    engine.store.close()


def test_a_plain_reader_of_sqlite_gets_an_error_and_no_wrong_answer(tmp_path):
    engine = StoreEngine(STREAM.group_by("k").agg(n=ps.count()), tmp_path, shards=lambda: 2)
    engine.store.close()
    with sqlite3.connect(tmp_path / "store.db") as database, pytest.raises(sqlite3.OperationalError, match="segments"):
        database.execute(f"SELECT * FROM {NAME}").fetchall()
