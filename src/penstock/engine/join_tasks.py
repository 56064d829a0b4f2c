"""A join of streams in Spark's tasks: events of the master as the rows of a side, and those that come too late.

Spark drops events behind its watermark without a word, and its watermark follows the largest time that it has seen. So
here the events that a commit finds late are told apart before the join, by the watermark that the store recorded for
it. Spark's own follows rows that stand for nothing but time: they lie so far ahead that no event comes near them, and
the watermark as far behind them. It then is what the store recorded, less a millisecond, and Spark drops nothing.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.engine.commits_source import FILES, CommitReader, Commits, Offset, Part, past_of
from penstock.engine.records import as_json
from penstock.engine.times import TIME, Time, times_of
from penstock.kernel.elements import compiled, elements
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.logs.base import LATE, MALFORMED, REASON
from penstock.model.expressions import bind
from penstock.model.join import StreamJoin, late_reason
from penstock.model.stream import Branch
from penstock.model.time import BEGINNING, SECOND, Instant
from penstock.model.types import is_integer

#: How far ahead of their time the rows of time lie, and what Spark takes for the delay of its watermark.
AHEAD_DAYS: Final = 36_500
_AHEAD: Final = AHEAD_DAYS * 86_400 * SECOND
#: No watermark is told beyond this: the year 9000.
_LATEST: Final = 221_845_392_000 * SECOND
_MILLISECOND: Final = SECOND // 1000
#: Whether a row stands for time only; up to where time has passed, for the one who reads the epoch.
MARK, NOTE = "__mark", "__note"


class JoinCommits(Commits):
    """The commits of the streams; parts with files also say what time it was. `only` names the streams to read."""

    @classmethod
    def name(cls) -> str:
        return "penstock_join_commits"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return _Reader(frozenset(json.loads(self.options["only"])), **self.told)


class _Reader(CommitReader):
    def __init__(self, only: frozenset[str], **told: Any) -> None:
        super().__init__(**told)
        self._only = only

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        time, *files = super().partitions(start, end)
        mine = [part for part in files if past_of(part.data).stream.name in self._only]
        return [time, *(Part(FILES, pickle.dumps((part.data, time.data))) for part in mine)]


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
    """The events of a side that are in time, and rows of time: `__at`, whether it is one, the keys and the columns."""

    join: StreamJoin
    side: int

    @property
    def types(self) -> dict[str, str]:
        schema = (self.join.left, self.join.right)[self.side].schema
        assert schema is not None
        keys = {f"__k{n}": _wide(bind(text, schema).type) for n, text in enumerate(self.join.keys(self.side))}
        letter = "lr"[self.side]
        return {"__at": "timestamp", MARK: "boolean", **keys, **{f"{letter}:{name}": kind for name, kind in schema}}

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.types.items())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Plan(self.join.view(self.side))
        for kind, data in _records(batches):
            if kind == TIME:
                mark = max((time.after for time in times_of(data)), default=BEGINNING)
                found = self._time(mark) if mark > BEGINNING else None
            else:
                found = self._rows(plan, *_opened(data))
            if found is not None and found.height:
                yield from _batches(found)

    def _time(self, mark: Instant) -> pl.DataFrame:
        at = min(mark, _LATEST) // _MILLISECOND * _MILLISECOND - _MILLISECOND + _AHEAD
        columns = {name: pl.Series(name, [None], dtype(kind)) for name, kind in self.types.items()}
        # Where keys that are null find nothing, Spark leaves such rows out before it looks at their time.
        columns |= {name: _some(name, dtype(self.types[name])) for name in columns if name.startswith("__k")}
        columns["__at"] = pl.Series("__at", [at], pl.Int64).cast(dtype("timestamp"))
        columns[MARK] = pl.Series(MARK, [True])
        return pl.DataFrame(columns)

    def _rows(self, plan: Plan, stream: str, rows: pl.DataFrame, times: list[Time]) -> pl.DataFrame:
        schema, letter = plan.view.input.schema, "lr"[self.side]
        assert schema is not None
        found = []
        for _, _, good in _walked(plan, stream, rows, times):
            plain = good.filter(~pl.col("__late")).select(
                self._at().cast(dtype("timestamp")).alias("__at"),
                *(pl.col(plan.inputs[f"`{name}`"]).alias(name) for name in schema.names),
            )
            keys = [
                compiled(text, schema).value.cast(dtype(self.types[f"__k{n}"]), strict=False).alias(f"__k{n}")
                for n, text in enumerate(self.join.keys(self.side))
            ]
            found.append(
                plain.with_columns(*keys, pl.lit(False).alias(MARK))
                .rename({name: f"{letter}:{name}" for name in schema.names})
                .select(*self.types)
            )
        return pl.concat(found)

    def _at(self) -> pl.Expr:
        """The time that Spark's join goes by: an event's own or, in windows, the last millisecond of its window."""
        window = self.join.window
        if window is None:
            return pl.col("__at")
        return pl.col("__at") - (pl.col("__at") - window.offset) % window.size + window.size - _MILLISECOND


@dataclass(frozen=True)
class Refusing:
    """Events of both sides that are late, or on which an expression fails; and up to where time has passed."""

    join: StreamJoin

    @property
    def ddl(self) -> str:
        own = ", ".join(f"`{name}` {kind}" for name, kind in self.join.schema)
        return f"{own}, `{MALFORMED}` string, `{REASON}` string, `{LATE}` boolean, `{NOTE}` bigint"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plans = [Plan(self.join.view(side)) for side in (0, 1)]
        for kind, data in _records(batches):
            if kind == TIME:
                mark = max((time.after for time in times_of(data)), default=BEGINNING)
                yield from _batches(self._made([(None, None, None, mark)]))
                continue
            stream, rows, times = _opened(data)
            for plan in plans:
                told = list(self._refused(plan, stream, rows, times))
                if told:
                    yield from _batches(self._made(told))

    def _refused(
        self, plan: Plan, stream: str, rows: pl.DataFrame, times: list[Time]
    ) -> Iterator[tuple[str | None, str | None, bool | None, int | None]]:
        for branch, dead, good in _walked(plan, stream, rows, times):
            names, place = branch.source.schema.names, ["__partition", "__offset"]
            told = dead.join(rows, on=place)
            for text, reason in zip(told.select(as_json(told, names)).to_series(), told["__reason"], strict=True):
                yield text, reason, False, None
            late = good.filter(pl.col("__late")).select(*place, "__before", pl.col("__at").alias("__t"))
            mine = late.join(rows, on=place)
            texts = mine.select(as_json(mine, names)).to_series()
            for text, at, before in zip(texts, mine["__t"], mine["__before"], strict=True):
                yield text, late_reason(at, before), True, None

    def _made(self, told: list[tuple[str | None, str | None, bool | None, int | None]]) -> pl.DataFrame:
        columns = [pl.Series(name, [None] * len(told), dtype(kind)) for name, kind in self.join.schema]
        kinds = ((MALFORMED, pl.String), (REASON, pl.String), (LATE, pl.Boolean), (NOTE, pl.Int64))
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
