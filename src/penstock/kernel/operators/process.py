"""A processor on columns: one commit of its events, then the timers that are due after it.

The order within a commit is that of the reference: events in the order of their positions, those that the watermark
has left behind rejected as late; then the watermark moves; then timers fire. What comes out is in the order of the
events that caused it; behind it what timers gave, by the time at which they were due, and by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, Final

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.base import (
    DUE_CLOCK,
    DUE_MARK,
    FAILED,
    SIGN,
    Emit,
    KeyedRows,
    OperatorTime,
    StateChange,
    StateKind,
    Stepped,
    key_name,
    rejected_schema,
)
from penstock.kernel.operators.process_events import KeyedEvents, keyed_events, shown_values
from penstock.kernel.operators.process_run import Cells, EventsResult, Runner, TimersResult
from penstock.kernel.operators.process_tables import side_table
from penstock.kernel.operators.without_gc import without_gc
from penstock.kernel.plan import POSITION, nothing
from penstock.model.counters import Counts, collected
from penstock.model.process import Process
from penstock.model.processing import late_reason
from penstock.model.side_tables import SideTable
from penstock.model.table import Snapshot
from penstock.model.time import BEGINNING, Instant

CELLS: Final = "cells"
#: The column that stands for the key of a processor without keys.
ALL: Final = "__all"
#: Columns of the output by which it is in order: events before timers, by position; timers by their time.
TIMER, DUE, ORDINAL = "__timer", "__timer_due", "__ordinal"
_PHYSICAL: Final[Mapping[str, pl.DataType]] = {"timestamp": pl.Int64(), "date": pl.Int32()}


@dataclass(frozen=True)
class ProcessStep:
    """A processor compiled for columns."""

    few_rows: ClassVar[int] = 100_000

    process: Process
    versions: Mapping[str, Snapshot] = field(default_factory=dict)  # of its side tables, in the commit at hand

    def with_tables(self, versions: Mapping[str, Snapshot]) -> ProcessStep:
        """The same on other versions of tables, with the same object of the user's class."""
        other = replace(self, versions=versions)
        other.__dict__["_runner"] = self._runner
        return other

    @cached_property
    def keys(self) -> list[str]:
        """The columns that identify a cell: the keys, or a constant where there are none."""
        return [key_name(number) for number in range(len(self.process.by))] or [ALL]

    @cached_property
    def kinds(self) -> Mapping[str, StateKind]:
        kinds = [kind for _, kind in self.process.shape.key] or ["tinyint"]
        schema = {name: dtype(kind) for name, kind in zip(self.keys, kinds, strict=True)}
        schema |= {"cell": pl.Binary(), DUE_MARK: pl.Int64(), DUE_CLOCK: pl.Int64()}
        if self.process.by:
            return {CELLS: StateKind(CELLS, tuple(self.keys), (), schema)}
        return {CELLS: StateKind(CELLS, (), (ALL,), schema)}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The columns by which rows that come out are sorted."""
        return (TIMER, *POSITION, DUE, *self.keys, ORDINAL)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.process)

    @cached_property
    def _tables(self) -> dict[str, SideTable]:
        none = Snapshot(0)
        return {
            name: side_table(table, self.versions.get(name, none)) for name, table in self.process.side_tables.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        """A step travels as its definition."""
        return {"process": self.process, "versions": self.versions}

    def step(
        self,
        rows: Sequence[pl.DataFrame],
        state: Mapping[str, KeyedRows],
        time: OperatorTime,
        emit: Emit | None = None,
    ) -> Stepped:
        with without_gc():
            return self._step(rows[0], state[CELLS], time)

    def _step(self, frame: pl.DataFrame, cells: KeyedRows, time: OperatorTime) -> Stepped:
        if not self.process.by:
            frame = frame.with_columns(pl.lit(0, pl.Int8).alias(ALL))
        self._runner.use_tables(self._tables)
        late, frame = self._late(frame, time.before)
        batch = keyed_events(frame, self.keys, self.process.shape, self.process.timed)
        stored = self._stored(batch.keys, cells)
        with collected() as counts:
            packed, keys = stored["cell"].to_list(), self._shown(batch.keys)
            events = self._runner.events(batch, keys, packed, time.before, time.now, counts)
            touched = self._changed(stored, events.cells)
            due = self._due(touched, cells, time)
            timers = self._fired(due, time, counts)
        change = self._change(stored, touched, due, timers.cells)
        dead = _rejected(batch.rows, [number for number, _ in events.dead], [reason for _, reason in events.dead])
        return Stepped(
            self._output(batch, events, due, timers), {CELLS: change}, late, dead, self._failed(due, timers),
            self.order, counts.totals(),
        )  # fmt: skip

    # what comes in

    def _late(self, rows: pl.DataFrame, mark: Instant) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that are rejected as late, and the others."""
        bound = mark - self.process.allow_late
        if not self.process.timed or mark <= BEGINNING or not rows.height or rows["__at"].min() >= bound:  # type: ignore[operator]
            return nothing(rejected_schema()), rows
        late = rows.filter(pl.col("__at") < bound)
        reasons = [late_reason(at, mark, self.process.allow_late) for at in late["__at"].to_list()]
        return _rejected(late, range(late.height), reasons), rows.filter(pl.col("__at") >= bound)

    def _stored(self, keys: pl.DataFrame, cells: KeyedRows) -> pl.DataFrame:
        """The state of keys, in their order; null where there is none."""
        return keys.join(cells.of(keys), on=self.keys, how="left", nulls_equal=True, maintain_order="left")

    def _shown(self, keys: pl.DataFrame) -> Sequence[Any]:
        """Keys as user code has them."""
        shape = self.process.shape
        columns = [shown_values(keys[name], kind) for name, (_, kind) in zip(self.keys, shape.key, strict=False)]
        if shape.make_key is None:
            return columns[0]
        rows = zip(*columns, strict=True) if columns else repeat((), keys.height)
        return list(map(shape.make_key._make, rows))

    # timers

    def _due(self, touched: pl.DataFrame, cells: KeyedRows, time: OperatorTime) -> pl.DataFrame:
        """The cells with something due: of those that events have touched, and of the others."""
        own = touched.filter(
            pl.col("cell").is_not_null() & ((pl.col(DUE_MARK) <= time.after) | (pl.col(DUE_CLOCK) <= time.now))
        )
        others = cells.due(time.after, time.now).select(own.columns)
        if touched.height and others.height:
            others = others.join(touched, on=self.keys, how="anti", nulls_equal=True)
        return pl.concat([own, others]) if others.height else own

    def _fired(self, due: pl.DataFrame, time: OperatorTime, counts: Counts) -> TimersResult:
        return self._runner.timers(self._shown(due), due["cell"].to_list(), time.after, time.now, counts)

    # what has changed

    def _changed(self, stored: pl.DataFrame, cells: Cells) -> pl.DataFrame:
        """State with other cells."""
        columns = {"__number": pl.UInt32, DUE_MARK: pl.Int64, DUE_CLOCK: pl.Int64}
        due = pl.DataFrame(cells.due, schema=columns, orient="row")
        packed = pl.DataFrame({"cell": self._runner.packed(cells)}, {"cell": pl.Binary}).with_row_index("__number")
        changed = packed.join(due, on="__number", how="left", maintain_order="left").drop("__number")
        return stored.select(*self.keys).with_columns(changed.get_columns())

    def _change(self, stored: pl.DataFrame, touched: pl.DataFrame, due: pl.DataFrame, after: Cells) -> StateChange:
        """What a step does to the state: the cells that differ, and the keys of those that are empty now."""
        columns = list(self.kinds[CELLS].schema)
        before = stored["cell"]
        changed = touched.filter(before.ne_missing(touched["cell"]))
        if due.height:
            changed = changed.join(due, on=self.keys, how="anti", nulls_equal=True)
            changed = pl.concat([changed.select(columns), self._changed(due, after).select(columns)])
        put = changed.filter(pl.col("cell").is_not_null()).select(columns)
        gone = changed.filter(pl.col("cell").is_null()).select(self.keys)
        return StateChange(put, gone if gone.height else None)

    # what comes out

    def _output(
        self, batch: KeyedEvents, events: EventsResult, due: pl.DataFrame, timers: TimersResult
    ) -> pl.DataFrame:
        """What came out, in order."""
        caused = batch.rows.select(*POSITION, *self.keys)[events.causes].with_columns(
            pl.lit(0, pl.Int8).alias(TIMER), pl.lit(None, pl.Int64).alias(DUE)
        )
        if timers.outputs:
            fired = due.select(self.keys)[[number for number, _ in timers.causes]].with_columns(
                *(pl.lit(None, kind).alias(name) for name, kind in rejected_schema().items() if name in POSITION),
                pl.lit(1, pl.Int8).alias(TIMER),
                pl.Series(DUE, [at for _, at in timers.causes], pl.Int64),
            )
            caused = pl.concat([caused, fired.select(caused.columns)])
        rows = pl.DataFrame([*output_columns(self.process, events.outputs + timers.outputs), *caused.get_columns()])
        rows = rows.with_columns(pl.lit(1, pl.Int8).alias(SIGN), pl.int_range(pl.len(), dtype=pl.Int64).alias(ORDINAL))
        return rows.sort(self.order, nulls_last=True)

    def _failed(self, due: pl.DataFrame, timers: TimersResult) -> pl.DataFrame:
        """Timers on which the code failed, in order."""
        if not timers.failed:
            return nothing(FAILED)
        numbers = [number for number, _, _, _ in timers.failed]
        failed = due.select(self.keys)[numbers].with_columns(
            pl.Series(DUE, [at for _, at, _, _ in timers.failed], pl.Int64),
            pl.Series("row", [row for _, _, row, _ in timers.failed], pl.String),
            pl.Series("__reason", [reason for _, _, _, reason in timers.failed], pl.String),
        )
        return failed.sort(DUE, *self.keys, maintain_order=True).select(list(FAILED))


def output_columns(process: Process, outputs: Sequence[Any]) -> list[pl.Series]:
    """Rows that a processor gave out, as columns of its stream."""
    if len(process.shape.outputs.schemas) == 1:
        rows = [values for _, values, _ in outputs]
    else:
        rows = [process.row(one) for one in outputs]
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(process.schema.names)
    return [
        pl.Series(name, values, dtype=_PHYSICAL.get(kind, dtype(kind))).cast(dtype(kind))
        for (name, kind), values in zip(process.schema, columns, strict=True)
    ]


def _rejected(rows: pl.DataFrame, numbers: Sequence[int], reasons: Sequence[str]) -> pl.DataFrame:
    if not len(numbers):
        return nothing(rejected_schema())
    rejected = rows.select(POSITION)[list(numbers)].with_columns(pl.Series("__reason", reasons, pl.String))
    return rejected.sort(*POSITION, maintain_order=True).select(list(rejected_schema()))
