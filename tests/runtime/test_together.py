"""Many views in one engine, on one store: each gives what the reference gives for it alone, whoever shares its steps.

Spark is not needed to show that: the jobs run here, as tasks of one row after the other would.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import assume, given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.local import events_frame, panes_of, table_of
from penstock.model.chain import chained
from penstock.model.changes import origins
from penstock.model.reference import Reference
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.store import SqliteStore
from penstock.testing import FiredPane, Result, TestStream, replay
from tests.comparison import differences
from tests.strategies import aligned_windows, cases, scripts, views, windows


class Frame:
    """As much of a DataFrame as the engine asks for: it runs a job on its batches."""

    def __init__(self, rows: pa.Table, job: Any = None) -> None:
        self.rows, self.job = rows, job

    @property
    def columns(self) -> list[str]:
        return self.rows.column_names

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None:
        return None

    def mapInArrow(self, job: Any, schema: str) -> Frame:
        return Frame(self.rows, job)

    def toArrow(self) -> pa.Table:
        batches = list(self.job(iter(self.rows.to_batches(max_chunksize=3))))
        schema = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])
        return pa.Table.from_batches(batches, schema if not batches else batches[0].schema)


def run(found: dict[str, ps.View], script: TestStream, directory: Path, **options: Any) -> dict[str, Result]:
    """The script on one engine with all views."""
    streams = {source.name: source for view in found.values() for source in origins(view)}
    fired: dict[str, list[FiredPane]] = {name: [] for name in found}
    caught_up = {"now": True}
    epochs = 0

    def opened(now: int) -> tuple[SqliteStore, Engine]:
        store = SqliteStore.open(directory)
        store.lock()
        engine = Engine(streams, store, now, lambda name: caught_up["now"], **options)
        engine.registry.keep(found)
        return store, engine

    state: tuple[SqliteStore, Engine] | None = None
    number = now = 0
    for commit in script.commits():
        if commit is None:
            if state is not None:
                state[0].close()
            state = None
            continue
        number, now, caught_up["now"] = number + 1, commit.now, commit.caught_up
        state = state or opened(now)
        done = None
        for name in sorted({event.stream for event in commit.events}):
            stream = streams[name]
            columns = needed(stream, state[1].registry.lowered)
            rows = events_frame(stream, commit.events, 0).select(*columns, "__partition", "__offset")
            done = state[1].epoch(name, columns, Frame(rows.to_arrow()), EpochOrigin(name, epochs, str(epochs)), now)
            epochs += 1
        if not commit.events:
            done = state[1].tick(now, commit.fixed)
        if done is not None:
            changes = dict(done.changes)
            for stack, change in done.stacked:
                changes |= stack.parts(change)
            for name, change in changes.items():
                fired[name] += [
                    FiredPane(number, pane) for pane in panes_of(state[1].registry.views[name].plan, change.panes)
                ]
    store, engine = state or opened(now)
    tables = {name: table_of(engine.registry.views[name].plan, store.state(name).table()) for name in found}
    store.close()
    return {name: Result(view, tuple(fired[name]), tuple(tables[name]), ()) for name, view in found.items()}


def compare(found: dict[str, ps.View], script: TestStream, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        got = run(found, script, Path(directory), **options)
    for name, view in found.items():
        expected = replay(view, script, chained(view, Reference))
        wrong = differences(replace(expected, refused=()), got[name])
        assert not wrong, f"{name}: " + "\n".join(wrong)


@st.composite
def several(draw: st.DrawFn) -> dict[str, ps.View]:
    """Views on one stream: some of one shape, some not."""
    first = draw(views(window=st.one_of(aligned_windows(), aligned_windows(), windows())))
    assume(len(first.input.sources) == 1)
    found = {"v0": first}
    for number in range(1, draw(st.integers(2, 4))):
        flow = draw(st.sampled_from([first.input, first.input.where("v <> 2"), first.input.where("k = 'a'")]))
        window = draw(aligned_windows()) if draw(st.booleans()) else first.windows
        change: dict[str, Any] = {"input": flow}
        if first.windows.ends_in_event_time:
            change["windows"] = window
        found[f"v{number}"] = replace(first, **change)
    return found


@cases(30, deep=40)
@given(several(), st.data())
def test_each_view_gives_what_it_gives_alone(found, data):
    script = data.draw(scripts(found["v0"], longest=6))
    note("\n".join(map(repr, [*found.values(), *script.steps])))
    compare(found, script)


def test_views_beyond_memory_are_stepped_from_the_store():
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second"))
    found = {
        f"v{n}": stream.group_by("k").window(ps.fixed(f"{n} minutes")).agg(n=ps.count()).trigger(ps.each())
        for n in (1, 2, 5)
    }
    script = TestStream(stream)
    for minute in range(4):
        rows = [{"k": k, "at": f"12:0{minute}:{second}"} for k in "abc" for second in (10, 40)]
        script = script.add(*rows)
    compare(found, script, open_rows=1)


def test_a_view_that_comes_later_steps_with_the_others_once_its_time_is_theirs(tmp_path):
    stream = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
    old = stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
    new = stream.group_by("k").window(ps.fixed("2 minutes")).agg(m=ps.count())
    store = SqliteStore.open(tmp_path)
    store.lock()
    engine = Engine({"s": stream}, store, 0, lambda name: True)
    engine.registry.keep({"old": old})

    def feed(number: int, minutes: Iterable[int]) -> Any:
        rows = pl.DataFrame({"k": ["a" for _ in minutes], "at": [m * 60_000_000 for m in minutes]})
        rows = rows.with_columns(
            pl.col("at").cast(pl.Datetime("us", "UTC")), pl.lit(0, pl.Int32).alias("__partition"),
            (pl.int_range(pl.len(), dtype=pl.Int64) + number * 100).alias("__offset"),
        )  # fmt: skip
        return engine.epoch("s", ("k", "at"), Frame(rows.to_arrow()), EpochOrigin("q", number, str(number)), number)

    feed(0, [1, 3])
    engine.registry.keep({"new": new})
    feed(1, [4, 5])
    done = feed(2, [6, 9])
    assert done.stacked == (), "they joined at other times"
    assert set(done.changes) == {"old", "new"}
    store.close()
    store = SqliteStore.open(tmp_path)
    store.lock()
    engine = Engine({"s": stream}, store, 0, lambda name: True)
    engine.registry.keep({"old": old, "new": new})
    done = feed(3, [10, 12])
    assert [stack.names for stack, _ in done.stacked] == [("old", "new")]
    assert store.query("SELECT sum(n) FROM old").item() == 8
    assert store.query("SELECT sum(m) FROM new").item() == 6
    store.close()
