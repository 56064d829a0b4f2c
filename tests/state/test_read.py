"""Views whose rows are in segments are read like views in tables: the same rows, in the same types, for each question."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.store import Reader
from penstock.store.scan import Snapshot, scanning
from penstock.testing import replay
from tests.kernel.test_against_reference import cut_with
from tests.store.engine import NAME, StoreEngine
from tests.strategies import cases, scripts, seconds, views


def table_of(snapshot: Snapshot) -> pa.Table:
    view = snapshot.views[NAME]
    return snapshot.scan(view, view.schema.names, []).read_all()


def same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema == other.schema
    assert sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


def compare(view: ps.View, data: st.DataObject) -> None:
    script = data.draw(scripts(view))
    seed = data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        in_table, in_segments = Path(directory) / "table", Path(directory) / "segments"
        replay(view, script, StoreEngine(view, in_table, cut_with(seed)))
        replay(view, script, StoreEngine(view, in_segments, cut_with(seed), None, lambda: chance.choice([1, 2, 5])))
        with scanning(Reader(in_table)) as one, scanning(Reader(in_segments)) as other:
            assert other.views[NAME].in_segments
            same(table_of(one), table_of(other))


@cases(40, deep=40)
@given(views(), st.data())
def test_any_view_has_the_same_rows_in_tables_and_in_segments(view, data):
    compare(view, data)


@cases(15, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_have_the_same_rows_in_tables_and_in_segments(view, data):
    compare(view, data)
