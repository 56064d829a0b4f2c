"""A join of streams in Spark's tasks: events of the master as the rows of a side, and those that come too late.

Spark drops events behind its watermark without a word, and its watermark follows the largest time that it has seen. So
here the events that a commit finds late are told apart before the join, by the watermark that the store recorded for
it. Spark's own follows rows that stand for nothing but time: they lie so far ahead that no event comes near them, and
the watermark as far behind them. It then is what the store recorded, less a millisecond, and Spark drops nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.history.events.master import MasterPast
from penstock.kernel.elements import can_fail, compiled, elements
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.model.expressions import bind
from penstock.model.join import StreamJoin, late_reason
from penstock.model.stream import Branch, Flow, Where, WithTime, branches
from penstock.model.table import TableJoin
from penstock.model.time import BEGINNING, SECOND, Instant
from penstock.model.types import Schema, is_integer
from penstock.runtime.derived.commits import CommitReader, Part, past_of
from penstock.runtime.derived.commits_source import FILES, Offset
from penstock.runtime.derived.times import TIME, Time, times_of
from penstock.runtime.epoch.wire import as_json
from penstock.sources.base import LATE, MALFORMED, REASON

#: How far ahead of their time the rows of time lie, and what Spark takes for the delay of its watermark.
AHEAD_DAYS: Final = 36_500
_AHEAD: Final = AHEAD_DAYS * 86_400 * SECOND
#: No watermark is told beyond this: the year 9000.
_LATEST: Final = 221_845_392_000 * SECOND
_MILLISECOND: Final = SECOND // 1000
#: Files to read, and a row of time besides.
TIMED: Final = "timed"
#: Whether a row stands for time only.
MARK: Final = "__mark"


class SideReader(CommitReader):
    """The commits of the streams. `only` names those to read.

    Parts with files also say what time it was, and the first of them stands for it.
    """

    def __init__(self, only: Collection[str], *told: Any) -> None:
        super().__init__(*told)
        self._only = only

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        time, *files = super().parts(start, end)
        mine = timed(time, [part for part in files if past_of(part[1]).stream.name in self._only])
        # A task of its own for the time would take longer than all that is in it.
        return [(TIMED, mine[0][1]), *mine[1:]] if mine else [time]


def timed(time: Part, files: Iterable[Part]) -> list[Part]:
    """Parts with files, which also say what time it was."""
    return [(kind, pickle.dumps((data, time[1]))) for kind, data in files]


def _opened(data: bytes) -> tuple[str, pl.DataFrame, list[Time]]:
    """What a row of the kind «files» stands for: a stream, its rows, and the times of the commits."""
    packed, times = pickle.loads(data)
    past = past_of(packed)
    return past.stream.name, past.read(), times_of(times)


def _judged(rows: pl.DataFrame, times: list[Time]) -> pl.DataFrame:
    """Rows with the watermark that was in force when they came; `__late` where it had left them behind."""
    known = {time.commit: time.before for time in times}
    told = pl.DataFrame(
        {"__commit": list(known), "__before": list(known.values())}, schema={"__commit": pl.Int64, "__before": pl.Int64}
    )
    before = pl.col("__before").fill_null(BEGINNING)
    return rows.join(told, on="__commit", how="left").with_columns(before, (pl.col("__at") < before).alias("__late"))


@dataclass(frozen=True)
class Side:
    """The events of a side that are in time, and rows of time: whether it is one, the columns, the time and the keys.

    Names begin with the letter of the side. Where a column is itself the time or a key, it does not come twice: all
    that a row has lies in Spark's state.
    """

    join: StreamJoin
    side: int

    @property
    def letter(self) -> str:
        return "lr"[self.side]

    @property
    def flow(self) -> Flow:
        return (self.join.left, self.join.right)[self.side]

    @property
    def schema(self) -> Schema:
        schema = self.flow.schema
        assert schema is not None
        return schema

    @property
    def at(self) -> str:
        """The column with the time that Spark's join goes by."""
        ways = branches(self.flow)
        own, *others = {way.source.event_time for way in ways}
        as_it_is = all(isinstance(step, Where) for way in ways for step in way.steps) and self.join.window is None
        plain = as_it_is and not others and own in self.schema.names and self.schema.type_of(own) == "timestamp"
        return f"{self.letter}:{own}" if plain else f"{self.letter}@"

    @property
    def keys(self) -> dict[str, str]:
        """The columns with the keys, and their types."""
        found: dict[str, str] = {}
        for number, text in enumerate(self.join.keys(self.side)):
            kind, own = _wide(bind(text, self.schema).type), f"{self.letter}:{text}"
            plain = text in self.schema.names and self.schema.type_of(text) == kind
            found[own if plain and own not in found else f"{self.letter}#{number}"] = kind
        return found

    @property
    def types(self) -> dict[str, str]:
        columns = {f"{self.letter}:{name}": kind for name, kind in self.schema}
        return {MARK: "boolean", **columns, self.at: "timestamp", **self.keys}

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.types.items())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Plan(self.join.view(self.side))
        for kind, data in _records(batches):
            opened = None if kind == TIME else _opened(data)
            times = times_of(data) if opened is None else opened[2]
            mark = max((time.after for time in times), default=BEGINNING)
            if kind != FILES and mark > BEGINNING:
                yield from _batches(self._time(mark))
            if opened is not None:
                yield from _batches(self._rows(plan, *opened))

    def _time(self, mark: Instant) -> pl.DataFrame:
        at = min(mark, _LATEST) // _MILLISECOND * _MILLISECOND - _MILLISECOND + _AHEAD
        columns = {name: pl.Series(name, [None], dtype(kind)) for name, kind in self.types.items()}
        # Where keys that are null find nothing, Spark leaves such rows out before it looks at their time.
        columns |= {name: _some(name, dtype(kind)) for name, kind in self.keys.items()}
        columns[self.at] = pl.Series(self.at, [at], pl.Int64).cast(dtype("timestamp"))
        columns[MARK] = pl.Series(MARK, [True])
        return pl.DataFrame(columns)

    def _rows(self, plan: Plan, stream: str, rows: pl.DataFrame, times: list[Time]) -> pl.DataFrame:
        found = [pl.DataFrame(schema={name: dtype(kind) for name, kind in self.types.items()})]
        for _, _, good in _walked(plan, stream, rows, times):
            plain = good.filter(~pl.col("__late")).select(
                self._at().cast(dtype("timestamp")).alias("__at"),
                *(pl.col(plan.inputs[f"`{name}`"]).alias(name) for name in self.schema.names),
            )
            keys = {
                name: compiled(text, self.schema).value.cast(dtype(kind), strict=False)
                for text, (name, kind) in zip(self.join.keys(self.side), self.keys.items(), strict=True)
            }
            columns = {f"{self.letter}:{name}": pl.col(name) for name in self.schema.names}
            columns |= {MARK: pl.lit(False), self.at: pl.col("__at"), **keys}
            found.append(plain.select(**columns).select(*self.types))
        # Sorted: what Spark's state has of a key is near at hand when the next event of that key asks for it.
        return pl.concat(found).sort(list(self.keys), maintain_order=True)

    def _at(self) -> pl.Expr:
        """The time that Spark's join goes by: an event's own or, in windows, the last millisecond of its window."""
        window = self.join.window
        if window is None:
            return pl.col("__at")
        return pl.col("__at") - (pl.col("__at") - window.offset) % window.size + window.size - _MILLISECOND


@dataclass(frozen=True)
class Refusing:
    """Events of both sides that are late, or on which an expression fails."""

    join: StreamJoin

    @property
    def ddl(self) -> str:
        own = ", ".join(f"`{name}` {kind}" for name, kind in self.join.schema)
        return f"{own}, `{MALFORMED}` string, `{REASON}` string, `{LATE}` boolean"

    def may_refuse(self, past: MasterPast, times: Sequence[Time]) -> bool:
        """Whether there may be such an event, by what is known of files without reading them."""
        before = max((time.before for time in times), default=BEGINNING)
        in_time = all(file.oldest is not None and file.oldest >= before for file in past.files)
        return not in_time or past.stream.name in self._always_read

    @cached_property
    def _always_read(self) -> frozenset[str]:
        """Streams of whose files nothing can be known: their events get another time, or an expression can fail."""
        return frozenset(
            branch.source.name
            for plan in map(Plan, map(self.join.view, (0, 1)))
            for branch in plan.branches
            if any(isinstance(step, WithTime | TableJoin) for step in branch.steps) or can_fail(plan, branch)
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plans = [Plan(self.join.view(side)) for side in (0, 1)]
        for _, data in _records(batches):
            stream, rows, times = _opened(data)
            for plan in plans:
                told = list(self._refused(plan, stream, rows, times))
                if told:
                    yield from _batches(self._made(told))

    def _refused(
        self, plan: Plan, stream: str, rows: pl.DataFrame, times: list[Time]
    ) -> Iterator[tuple[str, str, bool]]:
        for branch, dead, good in _walked(plan, stream, rows, times):
            names, place = branch.source.schema.names, ["__partition", "__offset"]
            told = dead.join(rows, on=place)
            for text, reason in zip(told.select(as_json(told, names)).to_series(), told["__reason"], strict=True):
                yield text, reason, False
            late = good.filter(pl.col("__late")).select(*place, "__before", pl.col("__at").alias("__t"))
            mine = late.join(rows, on=place)
            texts = mine.select(as_json(mine, names)).to_series()
            for text, at, before in zip(texts, mine["__t"], mine["__before"], strict=True):
                yield text, late_reason(at, before), True

    def _made(self, told: list[tuple[str, str, bool]]) -> pl.DataFrame:
        columns = [pl.Series(name, [None] * len(told), dtype(kind)) for name, kind in self.join.schema]
        kinds = ((MALFORMED, pl.String), (REASON, pl.String), (LATE, pl.Boolean))
        columns += [pl.Series(name, [row[n] for row in told], kind) for n, (name, kind) in enumerate(kinds)]
        return pl.DataFrame(columns)


def _walked(
    plan: Plan, stream: str, rows: pl.DataFrame, times: list[Time]
) -> Iterator[tuple[Branch, pl.DataFrame, pl.DataFrame]]:
    """What each branch of a side makes of a stream's rows: those on which it fails, and its elements, judged."""
    commits = rows.select("__partition", "__offset", "__commit")
    for branch in plan.branches:
        if branch.source.name == stream:
            found = elements(plan, branch, rows)
            good = found.good.collect().join(commits, on=["__partition", "__offset"])
            yield branch, found.dead, _judged(good, times)


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _batches(rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    if not rows.height:
        return
    table = rows.to_arrow()
    plain = [pa.field(one.name, _for_spark(one.type)) for one in table.schema]
    yield from table.cast(pa.schema(plain)).to_batches(max_chunksize=50_000)


def _for_spark(kind: pa.DataType) -> pa.DataType:
    """A type as Spark takes it from Arrow: not the wide texts and lists that Polars gives."""
    if pa.types.is_large_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _some(name: str, kind: pl.DataType) -> pl.Series:
    """Any value of a type that is not null."""
    if isinstance(kind, pl.List):
        return pl.Series(name, [[]], kind)
    plain = [b""] if kind == pl.Binary else [""] if kind == pl.String else [0]
    return pl.Series(name, plain).cast(kind)


def _wide(kind: str | None) -> str:
    return "bigint" if kind is not None and is_integer(kind) else kind or "string"
