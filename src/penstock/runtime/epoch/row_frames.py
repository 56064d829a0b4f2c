"""Steps that make rows of rows, before DataFrame code: there Spark does them, on its own frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from penstock.errors import RowError
from penstock.kernel.arrow import for_spark
from penstock.kernel.expressions import is_of_kernel
from penstock.kernel.python_steps import made
from penstock.model.explode import Explode
from penstock.model.row_steps import Filter, PythonStep
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def exploded(frame: DataFrame, step: Explode) -> DataFrame:
    """A row for each element."""
    from pyspark.sql import functions as f

    function = f"{'' if step.position is None else 'pos'}explode{'_outer' if step.outer else ''}"
    names = ", ".join(f"`{name}`" for name in step.made)
    return frame.select("*", f.expr(f"{function}({step.expression}) AS ({names})"))


def by_python(frame: DataFrame, step: PythonStep, schema: Schema, hidden: tuple[str, ...]) -> DataFrame:
    """What a function makes of rows. `hidden` columns are timestamps that come along."""
    takes = Schema(tuple((name, kind) for name, kind in schema if is_of_kernel(kind)))
    gives = takes if isinstance(step, Filter) else step.schema
    assert gives is not None
    ddl = ", ".join([*(f"`{name}` {kind}" for name, kind in gives), *(f"`{name}` timestamp" for name in hidden)])
    job = RowJob(replace(step, takes=takes), gives.names, hidden)
    return frame.select(*takes.names, *hidden).mapInArrow(job, ddl)


@dataclass(frozen=True)
class RowJob:
    """A step with a function, in Spark's tasks. The first row on which it fails makes the task fail."""

    step: PythonStep
    gives: tuple[str, ...]
    hidden: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(rows, pl.DataFrame)
            results = made(self.step, rows)
            for reason in results.failures.values():
                raise RowError(reason)
            parents = rows if results.parents is None else rows[results.parents]
            table = results.rows.select(self.gives).hstack(parents.select(self.hidden)).to_arrow()
            yield from table.cast(pa.schema([(part.name, for_spark(part.type)) for part in table.schema])).to_batches()
