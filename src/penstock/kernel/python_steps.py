"""Steps with a user's Python on columns: rows in, the rows that are made of them out, and why some failed.

Functions of rows get the columns as lists, once for a batch. A function of batches that fails is called again on halves
of its rows, until the rows are found on which it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from penstock.errors import RowError
from penstock.kernel.expressions import dtype
from penstock.kernel.operators.process_tables import side_table
from penstock.kernel.storable import why_not_storable
from penstock.kernel.values import model_series, plain
from penstock.model.counters import RowCount, collected
from penstock.model.row_steps import Filter, Map, MapBatches, PythonStep
from penstock.model.running_code import running
from penstock.model.table import Snapshot
from penstock.model.types import Schema
from penstock.model.user_rows import Failures, RowCode


@dataclass
class MadeFrame:
    """`parents` are the numbers of the rows that those of `rows` were made of; None: each of its own.

    `counts` is what the function has counted at rows on which it has not failed; `batches` what a function of batches
    has counted for several rows together, at the first of them.
    """

    parents: pl.Series | None
    rows: pl.DataFrame
    failures: Failures
    counts: list[RowCount]
    batches: list[RowCount] = field(default_factory=list)

    @property
    def numbers(self) -> pl.Series:
        """The number of each row among those of its parent."""
        if self.parents is None:
            return pl.repeat(0, self.rows.height, dtype=pl.Int64, eager=True)
        parents = self.parents.to_numpy()
        return pl.Series(np.arange(len(parents)) - np.searchsorted(parents, parents), dtype=pl.Int64)


def made(step: PythonStep, rows: pl.DataFrame) -> MadeFrame:
    """What a step makes of rows: the columns that its function takes, and `__at` if a table is as of that time."""
    taken = rows.select(step.known().names)
    if isinstance(step, MapBatches):
        return _batches(step, taken)
    columns = [plain(series).to_list() for series in taken.get_columns()]
    code = _code(step, rows)
    if isinstance(step, Filter):
        kept = code.filtered(columns)
        stays = pl.Series([number for number, keep in enumerate(kept.keeps) if keep], dtype=pl.UInt32)
        rows = taken[stays] if len(stays) < taken.height else taken
        return MadeFrame(stays, rows, kept.failures, kept.counts)
    assert isinstance(step, Map)
    results = code.flat_mapped(columns) if step.multiplies else code.mapped(columns)
    frame = pl.DataFrame(
        [model_series(name, kind, values) for (name, kind), values in zip(step.schema, results.columns, strict=True)]
    )
    same = not step.multiplies and not results.failures
    parents = None if same else pl.Series(results.parents, dtype=pl.UInt32)
    return MadeFrame(parents, frame, results.failures, results.counts)


def _code(step: PythonStep, rows: pl.DataFrame) -> RowCode:
    """The code of a step with its tables."""
    versions = step.snapshots or (Snapshot(0),) * len(step.sides)
    tables = [side_table(table, version) for table, version in zip(step.sides, versions, strict=True)]
    timed = any(table.valid_from is not None for table in step.sides)
    return step.code_with(tables, rows["__at"].to_physical().to_list() if timed else [0] * rows.height)


# Functions of batches


def _batches(step: MapBatches, rows: pl.DataFrame) -> MadeFrame:
    frames: list[pl.DataFrame] = []
    parents: list[pl.Series] = []
    failures: Failures = {}
    counts: list[RowCount] = []
    batches: list[RowCount] = []

    def take_halves(start: int, end: int) -> None:
        middle = (start + end) // 2
        take(start, middle)
        take(middle, end)

    def take(start: int, end: int) -> None:
        """The rows from `start` to `end`, in halves if the function fails on them."""
        try:
            with collected() as counted, running(step.who):
                output = _called(step, rows[start:end])
        except Exception as error:  # whatever it is, it concerns rows of this batch
            if end - start > 1:
                take_halves(start, end)
                return
            message = error.message if isinstance(error, RowError) else f"{type(error).__name__}: {error}"
            failures[start] = f"{step.who} failed: {message}"
            return
        good = output.filter(pl.col("__wrong").is_null())
        if counted.new and good.height < output.height and end - start > 1:
            take_halves(start, end)  # which of it was counted at the rows that do not fit is not known
            return
        if good.height:
            noted = [RowCount(start, name, number) for name, number in counted.new]
            (counts if end - start == 1 else batches).extend(noted)
        for number, reason in output.filter(pl.col("__wrong").is_not_null()).select("__number", "__wrong").iter_rows():
            failures[start + number] = f"{step.who}: {reason}"
        parents.append(good["__number"] + start)
        frames.append(good.drop("__number", "__wrong"))

    if rows.height:
        take(0, rows.height)
    if not frames:
        nobody = pl.Series([], dtype=pl.UInt32) if failures else None
        return MadeFrame(nobody, pl.DataFrame(schema=_types(step.schema)), failures, counts)
    return MadeFrame(pl.concat(parents) if failures else None, pl.concat(frames), failures, counts, batches)


def _called(step: MapBatches, rows: pl.DataFrame) -> pl.DataFrame:
    """What the function gives, in the declared types, with `__number` and `__wrong`, why a row cannot be stored."""
    function: Callable[..., Any] = step.function
    output = function(rows if step.of == "polars" else rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    frame = output if isinstance(output, pl.DataFrame) else _from_arrow(output)
    if frame.height != rows.height:
        raise RowError(f"gave {frame.height} rows for {rows.height}; use flat_map or explode to make more or fewer")
    for name in step.schema.names:
        if name not in frame.columns:
            raise RowError(f"lacks the column '{name}'; it gave {', '.join(frame.columns)}")
    typed = frame.select(pl.col(name).cast(kind) for name, kind in _types(step.schema).items())
    reasons = why_not_storable(step.schema)
    wrong = pl.coalesce(reasons) if reasons else pl.lit(None, pl.String)
    return typed.with_columns(wrong.alias("__wrong")).with_row_index("__number")


def _from_arrow(output: Any) -> pl.DataFrame:
    if not hasattr(output, "__arrow_c_stream__"):
        raise RowError(f"gave {type(output).__name__}, and must give a frame of Polars or a table of Arrow")
    return pl.DataFrame(output)


def _types(schema: Schema) -> dict[str, pl.DataType]:
    return {name: dtype(kind) for name, kind in schema}
