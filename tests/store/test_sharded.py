"""Views whose state is in segments: the store lists them with each commit, and gives the kernel the same rows."""

from __future__ import annotations

import itertools
import os
import random
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
from tests.strategies import cases, scripts, seconds, views

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
