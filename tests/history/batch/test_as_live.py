"""What live held of a view that forgets keys, computed again from what each commit brought and decided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.history.batch.as_live import Decisions, LiveReading, before_end
from penstock.kernel.fire import Time
from penstock.kernel.memory import Memory
from penstock.kernel.plan import PLACE, Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.step import step
from penstock.model.time import BEGINNING, END
from tests.strategies import cases

SECOND = 1_000_000
STREAM = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
VIEW = STREAM.group_by("k").agg(n=ps.count(), last=ps.max("unix_micros(at)"))
EVENTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 60)), max_size=4)
#: What each commit brings, and by how much the watermark has moved before it and moves in it; None is the end of input.
COMMITS = st.lists(st.tuples(EVENTS, st.integers(0, 12), st.integers(0, 12) | st.none()), min_size=1, max_size=8)


def frame(events: list[tuple[str | None, int]]) -> pl.DataFrame:
    """Events as a stream has accepted them."""
    at = [second * SECOND for _, second in events]
    return pl.DataFrame(
        {
            "k": pl.Series([k for k, _ in events], dtype=pl.String),
            "at": pl.Series(at, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
            "__at": pl.Series(at, dtype=pl.Int64),
            "__source": pl.Series([0] * len(events), dtype=pl.Int32),
            "__partition": pl.Series([0] * len(events), dtype=pl.Int32),
            "__offset": pl.Series(range(len(events)), dtype=pl.Int64),
        }
    )


def passed(mark: int, seconds: int | None) -> int:
    """The watermark after so many seconds more."""
    if seconds is None or mark == END:
        return END
    return seconds * SECOND if mark == BEGINNING and seconds else mark + seconds * SECOND if seconds else mark


@cases(300)
@given(COMMITS, st.integers(0, 20), st.integers(0, 3))
def test_a_view_that_forgets_keys_is_computed_again_as_live_held_it(commits, retention, point):
    plan = Plan(VIEW.retain(f"{retention} seconds"))
    state, mark, forgotten = Memory(plan), BEGINNING, None
    marks: list[tuple[int, int, int, int]] = []
    deltas: list[pl.DataFrame] = []
    past = frame([event for events, _, _ in commits[:point] for event in events])
    for number, (events, waits, moves) in enumerate(commits, 1):
        before = passed(mark, waits)  # time passes between two commits too
        after = passed(before, moves)
        if number > point:
            if number == point + 1 and past.height:  # a run from the past, for which no event is late
                time = moment(BEGINNING, before_end(plan, mark, forgotten))
                change = step(plan, [reduce(plan, "s", past, BEGINNING).deltas], Memory(plan), time)
                state = Memory(plan)
                state.apply(change)
                deltas.append(change_of(plan, past, 0))
            state.apply(step(plan, [], state, moment(mark, before)))
            rows = frame(events)
            new = [reduce(plan, "s", rows, before).deltas] if rows.height else []
            state.apply(step(plan, new, state, moment(before, after)))
            marks.append((number, before, after, 0))
            if rows.height:
                deltas.append(change_of(plan, rows, number))
        bounds = [plan.view.forgotten_before(one) for one in (before, after)]
        forgotten = max((one for one in (forgotten, *bounds) if one is not None), default=None)
        mark = after
    note(f"{marks}")
    reading = LiveReading(None, "v", SimpleNamespace(views={"v": plan.view}), 0, Path())  # type: ignore[arg-type]
    schema = {"__commit": pl.Int64, "before": pl.Int64, "after": pl.Int64, "now": pl.Int64}
    reading.decisions = Decisions(point, pl.DataFrame(marks, schema=schema, orient="row"), forgotten)
    reading.parts = lambda: iter([deltas] if deltas else [])  # type: ignore[method-assign]
    computed = [change.live for change in reading.states(mark, 0)]
    columns = ["k", "n", "last", "__touched"]
    rows = pl.concat(computed).select(columns).sort("k").rows() if computed else []
    if len(commits) > point:
        assert rows == state.live.select(columns).sort("k").rows()


def change_of(plan: Plan, rows: pl.DataFrame, commit: int) -> pl.DataFrame:
    """The deltas of a commit, as a task of the past leaves them."""
    deltas = reduce(plan, "s", rows, BEGINNING).deltas
    assert deltas.select(PLACE).null_count().row(0) == (deltas.height,) * 2
    return deltas.with_columns(pl.lit(commit, pl.Int64).alias("__commit"))


def moment(before: int, after: int) -> Time:
    return Time(before, after, 0, lambda _: after)
