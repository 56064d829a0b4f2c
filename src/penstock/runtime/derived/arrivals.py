"""The events that an epoch of a stream made from others has read: rows of a flow, with their places and times.

Spark's tasks read them from the history and run the flow's steps in the kernel. A row on which a step fails comes
along as a dead letter, to be given out as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl
import pyarrow as pa

from penstock.kernel.elements import elements
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import PLACE, Plan
from penstock.model.aggregates import last
from penstock.model.stream import Flow
from penstock.model.triggers import each
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.windows import global_window
from penstock.runtime.derived.commits import past_of
from penstock.runtime.derived.times import TIME
from penstock.runtime.epoch.wire import as_json

#: What comes with each event: its stream, its place there, its commit, its time in microseconds (the beginning of time
#: for a flow without one); and of dead letters the row as JSON and the reason.
ARRIVED: Final = {
    "__stream": "string", "__partition": "int", "__offset": "bigint", "__commit": "bigint", "__at": "bigint",
    "__row": "string", "__reason": "string",
}  # fmt: skip


@dataclass(frozen=True)
class Arriving:
    """Reads what commits brought, and takes the steps of a flow."""

    flow: Flow

    @property
    def schema(self) -> Schema:
        assert self.flow.schema is not None
        return self.flow.schema

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in (*ARRIVED.items(), *self.schema))

    @cached_property
    def view(self) -> View:
        """The flow as the model has it: every column as an input."""
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(self.schema.names))
        return View(self.flow, (), global_window(), columns, each())

    def __getstate__(self) -> dict[str, object]:
        return {"flow": self.flow}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Plan(self.view)
        for batch in batches:
            for kind, data in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if kind != TIME:
                    past = past_of(data)
                    for frame in self._read(plan, past.stream.name, past.read()):
                        yield from spark_batches(frame)

    def _read(self, plan: Plan, stream: str, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        types = {name: dtype(kind) for name, kind in (*ARRIVED.items(), *self.schema)}
        for branch in plan.branches:
            if branch.source.name != stream:
                continue
            made = elements(plan, branch, rows)
            good = _with_commits(made.good.collect(), rows)
            columns = [pl.col(plan.inputs[f"`{name}`"]).alias(name) for name in self.schema.names]
            frames = [good.select("__commit", "__at", *PLACE, *columns)]
            if made.dead.height:
                dead = made.dead.join(rows, on=PLACE)
                text = as_json(dead, branch.source.schema.names).alias("__row")
                frames.append(dead.select("__commit", "__reason", *PLACE, text))
            for frame in frames:
                lacking = [pl.lit(None, kind).alias(name) for name, kind in types.items() if name not in frame.columns]
                if frame.height:
                    yield frame.with_columns(*lacking).with_columns(pl.lit(stream).alias("__stream")).select(*types)


def _with_commits(good: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the commit that each came by; mostly they all came by one."""
    commits = rows["__commit"].unique()
    if commits.len() == 1:
        return good.with_columns(pl.lit(commits[0], pl.Int64).alias("__commit"))
    return good.join(rows.select(*PLACE, "__commit"), on=PLACE)


def spark_batches(rows: pl.DataFrame, size: int = 50_000) -> Iterator[pa.RecordBatch]:
    """A frame as batches that Spark takes: without the wide texts and lists that Polars gives."""
    table = rows.to_arrow()
    plain = pa.schema([pa.field(one.name, _for_spark(one.type)) for one in table.schema])
    yield from table.cast(plain).to_batches(max_chunksize=size)


def _for_spark(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind
