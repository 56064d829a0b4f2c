"""Random views on random streams, cut and restarted at random: the kernel equals the reference.

What each shape can reach: unions and several partitions – the minimum of watermarks and the order of positions;
restarts – state that lives outside what is saved; cuts – combining that depends on batches; null and NaN keys –
grouping and joining; sessions with retraction – ghosts; in_turn and any_of – triggers that go on without elements;
percentiles – the histogram; backlog – idleness that must wait.
"""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.local import LocalKernel
from penstock.model.reference import Reference
from penstock.testing import TestStream, replay
from tests.comparison import differences
from tests.strategies import RETENTIONS, cases, scripts, seconds, views


def cut_with(seed: int):
    """Cuts an epoch's rows into batches at random, in random order, as tasks of any number would see them."""
    chance = random.Random(seed)

    def cut(rows: pl.DataFrame) -> list[pl.DataFrame]:
        if chance.random() < 0.3:
            return [rows]
        batch = [chance.randrange(4) for _ in range(rows.height)]
        parts = rows.with_columns(pl.Series("__batch", batch)).partition_by("__batch", include_key=False)
        chance.shuffle(parts)
        return parts

    return cut


def compare(view: ps.View, data: st.DataObject) -> None:
    script = data.draw(scripts(view))
    seed = data.draw(st.integers(0, 1000))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, Reference(view))
    got = replay(view, script, LocalKernel(view, cut_with(seed)))
    assert not (found := differences(expected, got)), "\n".join(found)


@cases(240, deep=40)
@given(views(), st.data())
def test_any_view_gives_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


@cases(100, deep=40)
@given(views(window=st.just(ps.global_window())).filter(lambda view: view.keys), RETENTIONS, st.data())
def test_views_that_forget_keys_give_the_same_panes_table_and_refusals(view, retention, data):
    compare(view.retain(retention), data)


@cases(100, deep=40)
@given(views(window=seconds(1, 15).map(ps.session)), st.data())
def test_sessions_give_the_same_panes_table_and_refusals(view, data):
    compare(view, data)


def test_nan_is_one_key_of_count_windows():
    stream = ps.stream("s", schema="f double, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
    view = stream.group_by("f").window(ps.count_window(1)).agg(n=ps.count())
    row = {"f": float("nan"), "at": 946_728_000_000_000}
    script = TestStream(stream).add(row).add(row)
    expected = replay(view, script, Reference(view))
    assert len(expected.table) == 2
    assert not differences(expected, replay(view, script, LocalKernel(view)))
