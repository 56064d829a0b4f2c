"""The rows of a version sorted by key, to be looked things up in; and the refusal of a key that comes twice.

A table that fits into this process is sorted in it. A larger one Spark's tasks sort, each a range of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import pyarrow as pa

from penstock.kernel import lookup
from penstock.kernel.tables import frame_of, wide_keys, write_sorted
from penstock.model.table import Snapshot, Table
from penstock.model.table_rows import twice
from penstock.runtime.tables.frame import table_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many rows and bytes (of Parquet) one Spark task sorts.
_PIECE: Final = (4_000_000, 64 << 20)


@dataclass(frozen=True)
class TableSizes:
    """Up to which rows and bytes of Parquet a table is given to every process, and sorted by the driver itself."""

    broadcast_rows: int = 1_000_000
    broadcast_bytes: int = 64 << 20
    sorted_rows: int = 10_000_000
    sorted_bytes: int = 256 << 20


def sort(spark: SparkSession, table: Table, folder: Path, rows: int, size: int, sizes: TableSizes) -> None:
    """Writes the rows of a version a second time, sorted by key. Refuses them if two have the same."""
    place, snapshot = folder / lookup.FOLDER, _snapshot(folder)
    place.mkdir()
    if rows <= sizes.sorted_rows and size <= sizes.sorted_bytes:
        table_rows = frame_of(table, snapshot)
        check_once(table, table_rows)
        write_sorted(table, table_rows, place / "0.arrow")
        return
    numbered = table_frame(spark, table, snapshot).mapInArrow(
        _Numbering(table), f"{_types(table)}, {lookup.NUMBER} bigint"
    )
    ranges = numbered.repartitionByRange(1 + max(rows // _PIECE[0], size // _PIECE[1]), lookup.NUMBER)
    again = ranges.mapInArrow(_Sorting(table, str(place.absolute())), _types(table)).collect()
    if again:
        raise twice(table, [again[0][name] for name in unique(table)])


@dataclass(frozen=True)
class _Numbering:
    """Rows with the number that they are sorted by."""

    table: Table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(rows, pl.DataFrame)
            kept = rows.drop_nulls(list(self.table.key))
            numbered = kept.with_columns(lookup.numbers(kept.select(wide_keys(self.table)))).to_arrow()
            yield from numbered.cast(batch.schema.append(pa.field(lookup.NUMBER, pa.int64()))).to_batches()


@dataclass(frozen=True)
class _Sorting:
    """Writes a range of the keys; gives rows with a key that another has too."""

    table: Table
    place: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from penstock.runtime.epoch.job import task_number

        taken = list(batches)
        if not taken:
            return
        rows = pl.from_arrow(pa.Table.from_batches(taken).drop_columns([lookup.NUMBER]))
        assert isinstance(rows, pl.DataFrame)
        again = rows.head(0) if (repeated := _again(self.table, rows)) is None else repeated
        write_sorted(self.table, rows, Path(self.place) / f"{task_number()}.arrow")
        plain = taken[0].schema.remove(taken[0].schema.get_field_index(lookup.NUMBER))
        yield from again.head(1).to_arrow().cast(plain).to_batches()


def check_once(table: Table, rows: pl.DataFrame) -> None:
    """Refuses rows of which two have the same key."""
    again = _again(table, rows)
    if again is not None:
        raise twice(table, again.select(unique(table)).row(0))


def checked(spark: SparkSession, table: Table, folder: Path) -> None:
    """The same for a version of any size."""
    from pyspark.sql import functions as f

    names = unique(table)
    rows = table_frame(spark, table, _snapshot(folder)).dropna(subset=list(table.key))
    repeated = rows.groupBy(*(f"`{name}`" for name in names)).agg(f.count("*").alias("__n")).where("__n > 1").head()
    if repeated is not None:
        raise twice(table, list(repeated)[:-1])


def _again(table: Table, rows: pl.DataFrame) -> pl.DataFrame | None:
    keyed = rows.drop_nulls(list(table.key))
    names = unique(table)
    if keyed.select(names).n_unique() == keyed.height:
        return None
    return keyed.filter(keyed.select(names).is_duplicated())


def unique(table: Table) -> list[str]:
    """The columns of which no two rows have the same."""
    return [*table.key, *([table.valid_from] if table.valid_from else [])]


def _snapshot(folder: Path) -> Snapshot:
    return Snapshot(0, str(folder.absolute()))


def _types(table: Table) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in table.schema)
