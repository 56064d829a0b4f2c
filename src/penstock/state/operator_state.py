"""The state of a join, a processor or a pattern in segments."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import polars as pl

from penstock.kernel.operators.base import (
    DUE_CLOCK,
    DUE_MARK,
    KernelOperator,
    KeyedRows,
    OperatorTime,
    StateChange,
    StateKind,
    Stepped,
)
from penstock.kernel.plan import END, START, nothing
from penstock.model.running_code import operator
from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import Kind, Layout
from penstock.state.segment import ALL, EncodedRows, HashRange, Segment, SegmentFile, encoded
from penstock.state.sharded import ShardedState
from penstock.state.sorted_rows import SortedRows
from penstock.state.step_output import MANY_ROWS, OutputWriter, StepOutput

_OWNER: Final = "__op_"
#: An operator has read the past of its inputs, and takes part in the epochs.
LIVE: Final = -1
_NEVER: Final = -(1 << 62)


def owner_of(stream: str) -> str:
    """The name under which the state of an operator is listed: that of its output. No view has such a name."""
    return _OWNER + stream


@dataclass(frozen=True)
class StepProgress:
    """Up to which times the due rows of runs have been stepped: such rows have newer versions."""

    run: int = -1
    mark: Instant = _NEVER
    now: Instant = _NEVER


NOTHING_SEEN: Final = StepProgress()


@dataclass(frozen=True)
class ShardedOperator(ShardedState):
    """The state of an operator, by the stream that it gives.

    `rows_given` counts its output rows. Rows of a join that ended before `expired`, the watermark of its input,
    are gone. `replayed`: up to which commit of the past it has read its inputs; `LIVE` once it takes part in epochs.
    """

    rows_given: int = 0
    replayed: int = 0


@dataclass(frozen=True)
class OperatorChange:
    """What a commit does to the state of an operator."""

    added: tuple[Segment, ...]
    rows: int
    mark: Instant
    replayed: int = LIVE


def operator_layouts(kinds: Mapping[str, StateKind]) -> dict[Kind, Layout]:
    """How the rows of an operator lie in segments."""
    return {cast(Kind, name): _layout(kind) for name, kind in kinds.items()}


def _layout(kind: StateKind) -> Layout:
    place = (START, END, *kind.place) if kind.by_time else kind.place
    return Layout(cast(Kind, kind.name), kind.keys, place, kind.schema, by_window=kind.by_time)


class SegmentRows:
    """The rows of one kind of an operator's state, of one shard."""

    def __init__(
        self, state: ShardedOperator, kind: StateKind, shard: HashRange = ALL, seen: StepProgress = NOTHING_SEEN
    ) -> None:
        self._kind, self._mark, self._seen = kind, state.expired, seen
        self._rows = SortedRows(state.root, _layout(kind), state.segments, shard)

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """All rows of these keys."""
        if self._kind.append_only:
            return self._rows.near(keys, self._mark)
        return self._rows.of(keys, self._mark if self._kind.by_time else None)

    def ending(self, after: Instant, through: Instant) -> pl.DataFrame:
        """The rows whose `__end` lies after one instant, up to another."""
        return self._rows.ending([(after, through)])

    def due(self, mark: Instant, now: Instant) -> pl.DataFrame:
        """The rows that are due by the watermark or by the clock."""
        parts = []
        for column, seen, through in ((DUE_MARK, self._seen.mark, mark), (DUE_CLOCK, self._seen.now, now)):
            after = {one: seen if one.run <= self._seen.run else _NEVER for one in self._rows.segments}
            parts.append(self._rows.due_by(column, through, after))
        frames = [part for part in parts if part.height]
        if len(frames) < 2:
            return frames[0] if frames else nothing(self._kind.schema)
        return pl.concat(frames).unique(self._kind.identity, maintain_order=True)

    def due_rows(self, mark: Instant, now: Instant) -> int:
        """About how many rows `due` and `ending` would give. It reads indexes only."""
        count = 0
        for segment in self._rows.mapped():
            known = segment.segment.run <= self._seen.run
            if self._kind.by_time:
                count += self._rows.count_ending(segment, [(self._mark, mark + self._kind.stretch)])
                continue
            count += len(segment.between(DUE_MARK, self._seen.mark if known else _NEVER, mark))
            count += len(segment.between(DUE_CLOCK, self._seen.now if known else _NEVER, now))
        return count

    def next_due(self) -> Instant | None:
        """The earliest time by the watermark at which a row is due; of those that have not been stepped."""
        return self._rows.earliest(DUE_MARK, self._seen.mark) if DUE_MARK in self._kind.schema else None

    def all(self) -> pl.DataFrame:
        """All rows."""
        rows = self._rows.all()
        return rows.filter(pl.col(END) > self._mark) if self._kind.by_time else rows


@dataclass(frozen=True)
class OperatorStep:
    """The step of one shard of an operator, with all that it must know but the rows. It travels to the task."""

    state: ShardedOperator
    operator: KernelOperator
    time: OperatorTime
    run: int
    shard: HashRange = ALL
    seen: StepProgress = NOTHING_SEEN
    many_rows: int = MANY_ROWS

    def within(self, shard: HashRange) -> OperatorStep:
        """The same step for a part of the keys."""
        own = tuple(one for one in self.state.segments if shard.meets(one))
        return replace(self, shard=shard, state=replace(self.state, segments=own))

    @property
    def rows(self) -> dict[str, KeyedRows]:
        """The state, by kind."""
        return {
            name: SegmentRows(self.state, kind, self.shard, self.seen) for name, kind in self.operator.kinds.items()
        }

    def __call__(self, rows: Sequence[pl.DataFrame], name: str) -> tuple[Stepped, StepOutput, list[Segment]]:
        """Steps the shard and writes its file, under a name. All rows are of its keys."""
        with OutputWriter(self.state.root, name, self.many_rows) as output:
            with operator(self.state.name):
                stepped = self.operator.step(rows, self.rows, self.time, output.add)
            rows_out = output.close(stepped.rows, stepped.order)
        with SegmentFile(self.state.root, f"{name}-{uuid.uuid4().hex}.arrow") as file:
            for part in self._encoded(stepped.state):
                file.add(part)
            return stepped, rows_out, file.close()

    def _encoded(self, changes: Mapping[str, StateChange]) -> list[EncodedRows]:
        owner, kinds = owner_of(self.state.name), self.operator.kinds
        return [
            encoded(owner, _layout(kinds[name]), self.run, change.put.select(*kinds[name].schema), change.gone)
            for name, change in changes.items()
            if change.put.height or (change.gone is not None and change.gone.height)
        ]


def kept_rows(mark: Instant) -> pl.Expr | None:
    """Which rows stay when segments are merged, where rows end."""
    return None if mark <= BEGINNING else pl.col(END) > mark
