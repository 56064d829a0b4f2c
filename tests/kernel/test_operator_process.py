"""A processor on columns against the reference: the same rows, refusals and cells, however commits and keys are cut.

The reference looks at every cell after every commit, and undoes event by event. The kernel looks at cells that have
something due, packs them, and runs the events of a key again only if one of them failed. So these find a timer that is
forgotten or fires twice, state that is lost between commits, and a failure that leaves a trace.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.elements import elements
from penstock.kernel.local import events_frame
from penstock.kernel.lookup import FOLDER
from penstock.kernel.operators.base import OperatorTime, Stepped
from penstock.kernel.operators.process import CELLS, ProcessStep
from penstock.kernel.operators.process_cells import CellFormat
from penstock.kernel.operators.process_state import state_table
from penstock.kernel.operators.process_tables import side_table
from penstock.kernel.operators.rows import rows_in
from penstock.kernel.plan import Plan
from penstock.kernel.tables import write_sorted
from penstock.model.commits import Commit, Event
from penstock.model.pattern_processor import processor_of
from penstock.model.patterns import Pattern
from penstock.model.process import Process, process_of
from penstock.model.process_reference import ProcessReference
from penstock.model.table import Snapshot
from penstock.model.time import BEGINNING, SECOND, instant
from tests.kernel.rows_in_memory import RowsInMemory
from tests.model.test_patterns import patterns, values
from tests.strategies import cases

START = instant("2024-01-01")
STREAM = ps.stream(
    "s", schema="k string, op int, n int, at timestamp", event_time="at", watermark=ps.bounded("5 seconds", idle=None)
)


@dataclass
class Played:
    """What came out of a run: rows in their order, refusals, and what keys have at the end."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    refused: list[tuple[Any, ...]] = field(default_factory=list)
    state: dict[Any, Any] = field(default_factory=dict)
    order: list[tuple[Any, ...]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


def script_of(process: Process, drawn: list[Any]) -> list[tuple[Commit, int, int]]:
    """Commits, each with the watermarks before and after it."""
    reference, found = ProcessReference(process), []
    now, offset = START, 0
    for rows, passed, mark in drawn:
        now += passed * SECOND
        some = []
        for k, op, n, at in rows:
            some.append(Event("s", {"k": k, "op": op, "n": n, "at": START + at * SECOND}, offset % 2, offset))
            offset += 1
        tables = dict.fromkeys(process.side_tables, ((offset % 12, f"name {offset}"),))
        fixed = {} if mark is None else {"s": START + mark * SECOND}
        commit = Commit(now, tuple(some), fixed, tables=tables)
        before = reference.intake.time.watermark
        reference.commit(commit)
        found.append((commit, before, reference.intake.time.watermark))
    return found


def by_reference(process: Process, script: list[tuple[Commit, int, int]]) -> Played:
    reference, found = ProcessReference(process), Played()
    for commit, _, _ in script:
        result = reference.commit(commit)
        found.rows += [(key, one) for key, one in result.outputs]
        found.refused += [(one.kind, one.event.offset, one.reason) for one in result.refused]
        found.refused += [("timer", process.shape.key_text(key), reason) for key, _, reason in result.failed]
    found.rows = [(key, process.row(one)) for key, one in found.rows]
    found.state = {key: held for key, held in reference.state() if held}
    return found


def rows_of(process: Process, events: Iterable[Event]) -> pl.DataFrame:
    plan = Plan(process.view)
    (branch,) = plan.branches
    some = list(events)
    frame = events_frame(branch.source, some, 0).with_columns(
        pl.Series("__at", [event.row["at"] for event in some], pl.Int64)
    )
    names = plan.view.input_schema.names
    return rows_in(plan, names, elements(plan, branch, frame).good, 0)


def by_kernel(process: Process, script: list[tuple[Commit, int, int]], shards: int = 1, seed: int = 0) -> Played:
    found, chance = Played(), random.Random(seed)
    steps = [ProcessStep(process) for _ in range(shards)]
    cells = [RowsInMemory(step.kinds[CELLS]) for step in steps]
    for commit, before, after in script:
        rows = rows_of(process, commit.events)
        rows = rows[chance.sample(range(rows.height), rows.height)]
        if shards > 1:
            shard = pl.Series("shard", [hash(key) % shards for key in rows.select(steps[0].keys).iter_rows()], pl.Int64)
        time = OperatorTime(before, after, commit.now)
        results: list[Stepped] = []
        for number, step in enumerate(steps):
            mine = rows if shards == 1 else rows.filter(shard == number)
            step = steps[number] = step.with_tables({n: Snapshot(0, rows=rows) for n, rows in commit.tables.items()})
            result = step.step([mine], {CELLS: cells[number]}, time)
            cells[number].change(result.state[CELLS])
            results.append(result)
            if chance.random() < 0.2:
                steps[number] = ProcessStep(process)  # another process goes on
        together = pl.concat([one.rows for one in results]).sort(results[0].order, nulls_last=True)
        if shards == 1:
            assert together.equals(results[0].rows)
        found.order += together.select(results[0].order[:-1]).rows()
        values = together.select(_model(together[name]) for name in process.schema.names).rows()
        keys = together.select(_model(together[name]) for name in steps[0].keys).rows()
        found.rows += zip(keys if process.by else [()] * len(keys), values, strict=True)
        for one in results:
            found.refused += [("late", *row) for row in one.late.select("__offset", "__reason").rows()]
            found.refused += [("dead", *row) for row in one.dead.select("__offset", "__reason").rows()]
            found.refused += [("timer", _key_of(row), reason) for row, reason in one.failed.rows()]
            for name, count in one.counters.items():
                found.counters[name] = found.counters.get(name, 0) + count
    for step, held in zip(steps, cells, strict=True):
        for key, state in states(step, held.rows):
            found.state[key] = state
    return found


def _key_of(row: str) -> str:
    return json.dumps(json.loads(row)["key"])


def _model(series: pl.Series) -> pl.Series:
    return series.to_physical() if series.dtype.is_temporal() else series


def states(step: ProcessStep, rows: pl.DataFrame) -> list[tuple[Any, Any]]:
    """What the cells have, as the reference shows it."""
    found, format = [], CellFormat(step.process.shape.states)
    for *key, packed, _, _ in rows.select(_model(rows[name]) for name in rows.columns).iter_rows():
        cell = format.cell(next(format.unpacked([packed])))
        held = {name: step.process.shape.states[name].shown(one) for name, one in cell.states.items()}
        found += [(tuple(key) if step.process.by else (), held)] if held else []
    return found


def compare(process: Process, drawn: list[Any], shards: int, seed: int) -> Played:
    script = script_of(process, drawn)
    expected = by_reference(process, script)
    got = by_kernel(process, script, shards, seed)
    assert sorted(got.refused, key=str) == sorted(expected.refused, key=str)
    assert got.state == expected.state
    for key in {key for key, _ in expected.rows}:
        assert [row for of, row in got.rows if of == key] == [row for of, row in expected.rows if of == key]
    assert len(got.rows) == len(expected.rows)
    if shards > 1:
        whole = by_kernel(process, script)
        assert (got.rows, got.order) == (whole.rows, whole.order)
        assert got.counters == whole.counters
    return got


EVENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 11), st.integers(-5, 90), st.integers(-30, 400)),
    max_size=8,
)
COMMITS = st.lists(
    st.tuples(EVENTS, st.integers(0, 40), st.one_of(st.none(), st.integers(0, 4_000))), min_size=1, max_size=10
)


class Random(ps.Processor):
    """Does what its events say."""

    output = "k string, what string, n bigint, at timestamp"
    sides: ClassVar = {"side": "k string"}
    total = ps.value("bigint", default=0)
    ratio = ps.value("double", default=0)
    seen = ps.value("timestamp")
    price = ps.value("decimal(10,2)", default=Decimal(1))
    brief = ps.value("bigint", default=0, ttl="20 seconds")
    many = ps.list_of("int", ttl="1 minute")
    counts = ps.map_of("int", "bigint")

    def on_event(self, key, event, time):
        self.total += event.n
        ps.counter("events").add(1)
        if event.op == 0:
            self.brief += 1
            self.ratio += event.n
            yield key, f"brief {self.ratio}", self.brief, time
        elif event.op == 1:
            self.many.append(event.n)
            self.seen = time
            yield key, "many", len(self.many), event.at
        elif event.op == 2:
            self.counts[event.n % 3] = self.counts.get(event.n % 3, 0) + 1
            self.price += event.n
            yield key, f"counts {self.seen} {self.price}", sum(self.counts.values()), None
        elif event.op == 3:
            self.set_timer(time + timedelta(seconds=event.n * event.n), name="moves")
        elif event.op == 4:
            self.set_timer(time + timedelta(seconds=event.n))
        elif event.op == 5:
            self.set_timer(after=timedelta(seconds=event.n), clock="processing", name="clock")
        elif event.op == 6:
            self.emit_to("side", k=key)
            self.cancel_timer("moves")
        elif event.op == 7:
            self.many.clear()
            self.set_timer(after=timedelta(days=event.n))
            self.set_timer(time + timedelta(days=event.n), name="moves")
            raise ValueError("refused")
        elif event.op == 8:
            self.clear()
        elif event.op == 9:
            del self.total
            self.price = None
            yield key, f"{self.total} {self.price}", 0, None
        elif event.op == 10:
            self.emit({"k": key, "what": "lost", "n": 1, "at": None})
            self.seen = "no time"
        else:
            self.set_timer(after=timedelta(hours=event.n))

    def on_timer(self, key, timer):
        yield key, f"{timer.name} {timer.clock} {timer.at:%d %H:%M:%S}", self.total, self.now
        if self.total % 5 == 0:
            self.set_timer(after=timedelta(seconds=30), name="again")
            self.total += 1
        if self.total % 3 == 0:
            raise ValueError("timer")


@cases(300, deep=20)
@given(COMMITS, st.sampled_from([1, 1, 3]), st.integers(0, 100))
def test_a_processor_does_what_the_reference_does(drawn: list[Any], shards: int, seed: int) -> None:
    compare(process_of(STREAM, Random, "k", allow_late=2 * SECOND), drawn, shards, seed)


@cases(60, deep=20)
@given(COMMITS, st.integers(0, 100), st.sampled_from([(), ("k", "op % 2 AS odd"), ("at",), ("n / 2 AS x",)]))
def test_keys_of_any_number_and_type(drawn: list[Any], seed: int, by: tuple[str, ...]) -> None:
    class Keys(Random):
        def on_event(self, key, event, time):
            for _, what, n, at in super().on_event(str(key), event, time):
                yield str(key), what, n, at

        def on_timer(self, key, timer):
            for _, what, n, at in super().on_timer(key, timer):
                yield str(key), what, n, at

    compare(process_of(STREAM, Keys, by), drawn, 3 if by else 1, seed)


class Together(ps.Processor):
    """All events of a key in a commit at once."""

    output = "k string, n bigint, last timestamp"
    total = ps.value("bigint", default=0)
    many = ps.list_of("int")

    def on_events(self, key, events):
        for event in events:
            self.total += event.n
            self.many.append(event.op)
            if event.op == 7:
                raise ValueError("refused")
        assert len(events) == len(events.times)
        yield key, self.total, events.times[-1]


@cases(100, deep=20)
@given(COMMITS, st.sampled_from([1, 3]), st.integers(0, 100))
def test_events_of_a_key_come_together_and_one_by_one_after_a_failure(drawn: list[Any], shards: int, seed: int) -> None:
    compare(process_of(STREAM, Together, "k"), drawn, shards, seed)


NAMES = ps.table("names", schema="op int, name string", key="op")


class Known(ps.Processor):
    """Begins with a row, looks up others, and forgets all of it now and then."""

    output = "k string, total bigint, name string"
    total = ps.value("bigint", default=0)
    many = ps.list_of("int")

    def on_event(self, key, event, time):
        self.total += event.n
        row = self.table("names").get(event.op)
        yield key, self.total + sum(self.many), None if row is None else row.name
        if event.op == 7:
            raise ValueError("refused")
        if event.op == 8:
            self.clear()


@cases(100, deep=20)
@given(COMMITS, st.sampled_from([1, 3]), st.integers(0, 100))
def test_keys_begin_with_their_rows_and_code_looks_up_others(drawn: list[Any], shards: int, seed: int) -> None:
    rows = [{"k": "a", "total": 1000, "many": [1, 2]}, {"k": "b"}]
    compare(process_of(STREAM, Known, "k", tables=[NAMES], initial=rows), drawn, shards, seed)


def test_a_large_table_is_looked_up_in_its_files(tmp_path):
    rows = pl.DataFrame({"op": pl.Series(range(1000), dtype=pl.Int32), "name": [f"name {op}" for op in range(1000)]})
    rows.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / FOLDER).mkdir()
    write_sorted(NAMES, rows, tmp_path / FOLDER / "0.arrow")
    names = side_table(NAMES, Snapshot(1, str(tmp_path), large=True))
    assert names.get(7).name == "name 7"
    assert names.get(1000) is None
    assert len(names.rows()) == 1000


def test_keys_begin_with_the_rows_of_a_table():
    totals = ps.table("totals", schema="k string, total bigint", key="k")
    step = ProcessStep(process_of(STREAM, Known, "k", tables=[NAMES], initial=totals))
    step = step.with_tables({"totals": Snapshot(0, rows=(("a", 10),))})
    cells = RowsInMemory(step.kinds[CELLS])
    found = []
    for key, op in (("a", 8), ("a", 0), ("b", 0)):
        rows = rows_of(step.process, [Event("s", {"k": key, "op": op, "n": 1, "at": START}, 0, 0)])
        result = step.step([rows], {CELLS: cells}, OperatorTime(BEGINNING, BEGINNING, START))
        cells.change(result.state[CELLS])
        found += result.rows["total"].to_list()
    assert found == [11, 1, 1]


KINDS_OF_EVENTS = STREAM.select(
    "k", "at", kind="CASE op % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END", v="CAST(n % 4 AS BIGINT)"
)


@cases(100, deep=20)
@given(patterns(), COMMITS, st.sampled_from([1, 3]), st.integers(0, 100))
def test_a_pattern_finds_what_it_finds_on_the_reference(
    pattern: Pattern, drawn: list[Any], shards: int, seed: int
) -> None:
    try:
        pattern.check()
    except DefinitionError:
        return
    found_by = processor_of(pattern, "k string, found string", lambda key, m: {"k": key, "found": values(m)})
    compare(process_of(KINDS_OF_EVENTS, found_by, "k", allow_late=2 * SECOND), drawn, shards, seed)


def test_an_event_on_which_a_condition_fails_is_left_out_of_a_pattern():
    fragile = ps.pattern("a", lambda e: 10 // e.n > 1).then("b", lambda e: True)
    found_by = processor_of(fragile, "found string", lambda key, m: {"found": f"{m.first('a').n} {m.first('b').n}"})
    events = [("k", 0, n, START + at * SECOND) for at, n in enumerate((1, 0, 2))]
    result = stepped(process_of(STREAM, found_by, "k"), *events, after=START + 60 * SECOND)
    assert result.rows["found"].to_list() == ["1 2"]
    ((row, reason),) = result.failed.rows()
    assert json.loads(row)["key"] == ["k"]
    assert reason.startswith("the processor Pattern failed: ZeroDivisionError")
    assert "n=0" in reason


# Single cases


def stepped(process: Process, *events: tuple[Any, ...], before: int = BEGINNING, after: int = BEGINNING) -> Stepped:
    """One commit of events, on no state."""
    names = process.input.sources[0].schema.names
    some = [Event("s", dict(zip(names, row, strict=True)), 0, offset) for offset, row in enumerate(events)]
    step = ProcessStep(process)
    cells = RowsInMemory(step.kinds[CELLS])
    return step.step([rows_of(process, some)], {CELLS: cells}, OperatorTime(before, after, START))


def test_an_event_on_which_code_fails_leaves_no_trace():
    class Fragile(ps.Processor):
        output = "n bigint"
        n = ps.value("bigint", default=0)
        seen = ps.list_of("int")

        def on_event(self, key, event, time):
            self.n += 1
            self.seen.append(event.n)
            ps.counter("tried").add(1)
            self.set_timer(after="1 minute")
            yield (self.n,)
            if event.n == 7:
                raise ValueError("seven")
            if event.n == 8:
                self.n = "eight"

    process = process_of(STREAM, Fragile, "k")
    result = stepped(process, *(("a", 0, n, START + n * SECOND) for n in (1, 7, 2, 8)))
    assert result.rows["n"].to_list() == [1, 2]
    assert result.rows["__offset"].to_list() == [0, 2]
    assert result.dead.select("__offset", "__reason").rows() == [
        (1, "the processor Fragile failed: ValueError: seven"),
        (3, "the processor Fragile failed: 'eight' is not of type bigint"),
    ]
    assert result.counters == {"tried": 2}
    ((key, held),) = states(ProcessStep(process), result.state[CELLS].put)
    assert (key, held) == (("a",), {"n": 2, "seen": [1, 2]})
    assert result.state[CELLS].put["__due_mark"].min() == START + 61 * SECOND


def test_a_row_that_takes_an_earlier_one_back_says_so():
    signed = ps.stream("s", schema="k string, n int, at timestamp, sign int", event_time="at", sign="sign")

    class Sum(ps.Processor):
        output = "total bigint"
        total = ps.value("bigint", default=0)

        def on_event(self, key, event, time):
            self.total += event.change * event.n
            yield (self.total,)

    result = stepped(process_of(signed, Sum, "k"), ("a", 5, START, 1), ("a", 7, START, 1), ("a", 5, START, -1))
    assert result.rows["total"].to_list() == [5, 12, 7]


def test_what_comes_out_is_in_the_order_of_its_causes():
    class Order(ps.Processor):
        output = "what string"

        def on_event(self, key, event, time):
            self.set_timer(time + timedelta(seconds=event.n))
            yield (f"{key}{event.n} first",)
            yield (f"{key}{event.n} second",)

        def on_timer(self, key, timer):
            yield (f"{key} {timer.at:%S}",)

    events = [("b", 0, 9, START), ("a", 0, 9, START), ("b", 0, 3, START)]
    result = stepped(process_of(STREAM, Order, "k"), *events, after=START + 60 * SECOND)
    named = [f"{k}{n} {which}" for k, _, n, _ in events for which in ("first", "second")]
    assert result.rows["what"].to_list() == [*named, "b 03", "a 09", "b 09"]
    assert result.rows["__sign"].to_list() == [1] * 9
    assert result.rows.sort(result.order).equals(result.rows)
    assert result.state[CELLS].put.height == 0


def test_only_cells_that_differ_are_written():
    class Known(ps.Processor):
        output = "n bigint"
        known = ps.value("boolean")

        def on_event(self, key, event, time):
            self.known = True

    process = process_of(STREAM, Known, "k")
    step, rows = ProcessStep(process), rows_of(process, [Event("s", {"k": "a", "op": 0, "n": 0, "at": START}, 0, 0)])
    cells = RowsInMemory(step.kinds[CELLS])
    time = OperatorTime(BEGINNING, BEGINNING, START)
    first = step.step([rows], {CELLS: cells}, time).state[CELLS]
    cells.change(first)
    again = step.step([rows], {CELLS: cells}, time).state[CELLS]
    assert (first.put.height, again.put.height, again.gone) == (1, 0, None)


KINDS = [
    ("tinyint", 7), ("bigint", -(1 << 63)), ("float", 0.5), ("double", 1e300), ("boolean", False), ("string", "ä"),
    ("string", "half \ud800"), ("binary", b"\x00\xff"), ("date", date(2024, 2, 29)),
    ("timestamp", datetime(2024, 2, 29, 12, tzinfo=UTC)), ("decimal(10,2)", Decimal("1.50")),
    ("array<date>", [date(2024, 1, 1), None]), ("array<array<binary>>", [[b"a"], []]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), KINDS)
def test_values_of_any_type_survive_a_commit(kind: str, given: Any):
    class Kept(ps.Processor):
        output = "same boolean"
        one = ps.value(kind)
        brief = ps.value(kind, ttl="1 day")
        many = ps.list_of(kind)
        by_text = ps.map_of("string", kind)

        def on_event(self, key, event, time):
            if event.n == 0:
                self.one = self.brief = given
                self.many.append(given)
                self.by_text["x"] = given
            else:
                yield (
                    (self.one, self.brief, list(self.many), dict(self.by_text))
                    == (given, given, [given], {"x": given}),
                )

    process = process_of(STREAM, Kept, "k")
    step = ProcessStep(process)
    cells = RowsInMemory(step.kinds[CELLS])
    for n in (0, 1):
        rows = rows_of(process, [Event("s", {"k": "a", "op": 0, "n": n, "at": START}, 0, n)])
        result = step.step([rows], {CELLS: cells}, OperatorTime(BEGINNING, BEGINNING, START))
        cells.change(result.state[CELLS])
    assert result.dead.height == 0
    assert result.rows["same"].to_list() == [True]
    if "\ud800" not in str(given):
        table = state_table(process, cells.rows, START)
        assert table["one"].to_list() == [given]
        assert table["by_text"].to_list() == [[{"key": "x", "value": given}]]


def test_a_state_that_nobody_declares_stays_and_one_of_another_type_is_another():
    class Number(ps.Processor):
        output = "x string"
        x = ps.value("bigint")
        y = ps.list_of("int", ttl="1 day")

        def on_event(self, key, event, time):
            if event.n:
                self.x, self.y = event.n, [event.n]
            yield (f"{self.x} {list(self.y)}",)

    class Text(ps.Processor):
        output = "x string"
        z = ps.value("int", default=1)
        x = ps.value("string")

        def on_event(self, key, event, time):
            before, self.x = self.x, "text"
            yield (f"{before} {self.z}",)

    kind, cells = ProcessStep(process_of(STREAM, Number, "k")).kinds[CELLS], None
    found = []
    for processor, n in ((Number, 7), (Text, 0), (Text, 0), (Number, 0)):
        process = process_of(STREAM, processor, "k")
        cells = RowsInMemory(kind, None if cells is None else cells.rows)
        rows = rows_of(process, [Event("s", {"k": "a", "op": 0, "n": n, "at": START}, 0, 0)])
        result = ProcessStep(process).step([rows], {CELLS: cells}, OperatorTime(BEGINNING, BEGINNING, START))
        cells.change(result.state[CELLS])
        found += result.rows["x"].to_list()
    assert found == ["7 [7]", "None 1", "text 1", "7 [7]"]


def test_a_step_travels_without_the_object_that_it_runs():
    step = ProcessStep(process_of(STREAM, Random, "k"))
    step.step([rows_of(step.process, [])], {CELLS: RowsInMemory(step.kinds[CELLS])}, OperatorTime(0, 0, 0))
    assert cloudpickle.loads(cloudpickle.dumps(step)).kinds == step.kinds
