"""Parquet files with types that only Spark has, such as structs and maps. The tasks read them, and hand on Arrow.

So a file that is damaged, or whose columns have other types, is a dead letter here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from penstock.model.types import Schema
from penstock.sources.base import EXTENT, MALFORMED, PATH, REASON, ROW
from penstock.sources.files.whole import whole
from penstock.sources.formats import parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OWN = (MALFORMED, REASON, EXTENT, PATH)


@dataclass(frozen=True)
class ParquetRows:
    """The rows of Parquet files, in a task: names of files in, rows out.

    `in_path` gives the columns that the names of a file's directories hold.
    """

    schema: Schema
    types: pa.Schema
    in_path: Callable[[str], list[pl.Expr]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(PATH).to_pylist():
                local, count = path.removeprefix("file:"), 0
                verify = partial(parquet.verify, local, self.schema)
                for rows in whole(local, self._tables(local), verify):
                    table = rows if isinstance(rows, pa.Table) else rows.to_arrow()
                    yield from self._complete(table, local, count).to_batches()
                    count += table.num_rows

    def _tables(self, path: str) -> Iterator[pa.Table]:
        columns = pl.select(self.in_path(path))
        for table in parquet.read_tables(path, self.schema, self.types):
            for column in columns:
                own = column.new_from_index(0, table.num_rows).to_arrow().cast(self.types.field(column.name).type)
                table = table.set_column(table.schema.names.index(column.name), column.name, own)
            yield table

    def _complete(self, table: pa.Table, path: str, first: int) -> pa.Table:
        """All columns that Spark expects, null where the rows have none."""
        count = table.num_rows
        columns = {
            PATH: pa.array([path] * count, pa.string()),
            ROW: pa.array(range(first, first + count), pa.int64()),
            **{name: table.column(name) for name in table.schema.names},
        }
        form = pa.schema([*self.types, *((name, pa.string()) for name in _OWN), (ROW, pa.int64())])
        return pa.table([columns.get(field.name, pa.nulls(count, field.type)) for field in form], form)


def read_nested(paths: DataFrame, schema: Schema, in_path: Callable[[str], list[pl.Expr]]) -> DataFrame:
    """Names of files (`PATH`) as rows of the schema, with `MALFORMED`, `REASON`, `EXTENT`, `PATH` and `ROW`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    ddl = ", ".join(f"`{name}` {kind}" for name, kind in schema)
    types = to_arrow_schema(paths.sparkSession.createDataFrame([], ddl).schema, timezone="UTC")
    own = ", ".join([*(f"`{name}` string" for name in _OWN), f"`{ROW}` bigint"])
    return paths.mapInArrow(ParquetRows(schema, types, in_path), f"{ddl}, {own}")
