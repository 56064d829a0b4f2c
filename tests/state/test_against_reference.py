"""Random views on random streams with their state in segments, in any number of shards: equal to the reference."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.model.reference import Reference
from penstock.testing import replay
from tests.comparison import differences
from tests.kernel.test_against_reference import cut_with
from tests.state.kernel import SegmentKernel
from tests.strategies import cases, scripts, seconds, views


def compare(view: ps.View, data: st.DataObject) -> None:
    script = data.draw(scripts(view))
    seed = data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    with tempfile.TemporaryDirectory() as directory:
        got = replay(view, script, SegmentKernel(view, Path(directory), seed, cut_with(seed)))
    assert not (found := differences(expected, got)), "\n".join(found)


@cases(120, deep=40)
@given(views(), st.data())
def test_any_view_gives_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(60, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_give_the_same_panes_table_and_refusals(view, data):
    compare(view, data)
