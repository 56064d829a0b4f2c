"""Spark runs the kernel faithfully: random views on random streams give what the reference gives, in any tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, note
from hypothesis import strategies as st

from penstock.model.reference import Reference
from penstock.runtime.script import OnSpark
from penstock.testing import replay
from tests.comparison import differences
from tests.strategies import cases, scripts, views


@cases(12, deep=40)
@given(view=views(), data=st.data(), tasks=st.integers(1, 3))
def test_any_view_gives_the_same_panes_table_and_refusals_on_spark(spark, view, data, tasks):
    script = data.draw(scripts(view, longest=5))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    with tempfile.TemporaryDirectory() as directory:
        got = replay(view, script, OnSpark(view, spark, Path(directory), tasks))
    assert not (found := differences(expected, got)), "\n".join(found)
