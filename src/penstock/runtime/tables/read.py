"""Reading a table where it comes from, into a folder of Parquet that nobody changes from then on."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock.errors import DefinitionError, PenstockError
from penstock.kernel.expressions import dtype
from penstock.model.table import Table
from penstock.runtime.spark.internals import cloned_session
from penstock.runtime.tables.sort import TableSizes, check_once, checked, sort, unique
from penstock.sources.base import MALFORMED
from penstock.sources.database import Database
from penstock.sources.files.source import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Asks the store of the run.
Ask = Callable[[str], pl.DataFrame]


@dataclass(frozen=True)
class ViewRows:
    """The rows of a view of the same app, as of its last commit, by a query over its table."""

    view: str
    query: str

    def __repr__(self) -> str:
        return f"the view {self.view}"


@dataclass(frozen=True)
class VersionSize:
    """What was read: how many rows, and how large its files are."""

    rows: int
    bytes: int


def seen(table: Table) -> str | None:
    """A text that changes when the files of a table do; None where only reading tells."""
    if not isinstance(table.source, Files) or "://" in table.source.path:
        return None
    files = []
    for folder, _, names in os.walk(table.source.path):
        for name in names:
            about = os.stat(os.path.join(folder, name))
            files.append((os.path.join(folder, name), about.st_size, about.st_mtime_ns))
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()


def write(
    spark: SparkSession, table: Table, ask: Ask | None, folder: Path, last: Path | None, sizes: TableSizes
) -> VersionSize | None:
    """Reads a table into a folder. None, and no folder, if it has just the rows that it had last."""
    source = table.source
    if isinstance(source, Files):
        if not _copied(table, source, folder):
            _write_files(spark, table, source, folder)
    else:
        rows = _fitting(table, _asked(table, ask))
        if last is not None and rows.equals(_read(table, last)):
            return None
        folder.mkdir(parents=True)
        rows.write_parquet(folder / "part-0.parquet")
    files = list(folder.glob("*.parquet"))
    rows_read = pl.scan_parquet([*files], hive_partitioning=False).select(pl.len()).collect().item() if files else 0
    written = VersionSize(int(rows_read), sum(file.stat().st_size for file in files))
    large = written.rows > sizes.broadcast_rows or written.bytes > sizes.broadcast_bytes
    if large and table.broadcast is None:
        sort(spark, table, folder, written.rows, written.bytes, sizes)
    elif large and not table.broadcast:
        checked(spark, table, folder)
    elif files:
        check_once(table, _read(table, folder, unique(table)))
    return written


def _copied(table: Table, source: Files, folder: Path) -> bool:
    """Copies files that are as a version's would be, without looking into them; whether they were."""
    if source.format != "parquet" or "://" in source.path:
        return False
    place = Path(source.path)
    files = sorted(place.iterdir()) if place.is_dir() else [place] if place.is_file() else []
    files = [file for file in files if not file.name.startswith(("_", "."))]
    types = {name: dtype(kind) for name, kind in table.schema}
    for file in files:
        try:
            file_schema = pl.read_parquet_schema(file) if file.is_file() else {}
        except pl.exceptions.PolarsError:
            return False
        if any(file_schema.get(name) != kind for name, kind in types.items()):
            return False
    if files:
        folder.mkdir(parents=True)
    for number, file in enumerate(files):
        shutil.copyfile(file, folder / f"part-{number}.parquet")
    return bool(files)


def _write_files(spark: SparkSession, table: Table, source: Files, folder: Path) -> None:
    if "://" not in source.path and not Path(source.path).exists():
        raise PenstockError(f"there is no '{source.path}'")
    session = cloned_session(spark)  # the setting is nobody else's
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = source._configured(session.read, table.schema, table.schema.names).load(source.place)
    if MALFORMED in rows.columns:
        rows = rows.cache()  # Spark tells malformed rows only of rows that it has kept
        try:
            bad = rows.where(f"`{MALFORMED}` IS NOT NULL").select(MALFORMED).head()
            if bad is not None:
                raise PenstockError("a row of it cannot be read", detail=str(bad[0])[:200])
            _written(rows.select(*(f"`{name}`" for name in table.schema.names)), folder)
        finally:
            rows.unpersist()
    else:
        _written(rows, folder)


def _written(rows: DataFrame, folder: Path) -> None:
    rows.write.parquet(f"file://{folder.absolute()}")


def _asked(table: Table, ask: Ask | None) -> pl.DataFrame:
    if isinstance(table.source, Database):
        return table.source.rows()
    if isinstance(table.source, ViewRows) and ask is not None:
        there = ask(f"SELECT 1 FROM __views WHERE name = '{table.source.view}'").height
        return ask(table.source.query) if there else pl.DataFrame(schema=dict.fromkeys(table.schema.names, pl.Null))
    raise DefinitionError(
        f"the table '{table.name}' has no source",
        hint="say where: app.table(name, ps.files('folder'), …) or ps.database('sqlite:///file', 'SELECT …')",
    )


def _fitting(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of a table, with its types; texts that are times become times."""
    lacking = [name for name in table.schema.names if name not in rows.columns]
    if lacking:
        raise PenstockError(f"there is no column '{lacking[0]}'", detail=f"its columns are {', '.join(rows.columns)}")
    try:
        return rows.select(_cast(rows[name], kind) for name, kind in table.schema)
    except pl.exceptions.PolarsError as error:
        raise PenstockError(f"its columns have other types: {str(error).splitlines()[0]}") from error


def _cast(column: pl.Series, kind: str) -> pl.Series:
    if kind in ("timestamp", "date") and column.dtype.is_integer():  # as a store keeps them
        return column.cast(pl.Int64 if kind == "timestamp" else pl.Int32).cast(dtype(kind))
    if kind == "timestamp" and column.dtype == pl.String:
        return column.str.to_datetime(time_unit="us", time_zone="UTC").cast(dtype(kind))
    return column.cast(dtype(kind))


def _read(table: Table, folder: Path, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Rows of a version; of all columns, or of these."""
    wanted = table.schema if names is None else table.schema.pick(names)
    rows = pl.read_parquet(folder / "*.parquet", columns=list(wanted.names), hive_partitioning=False)
    return rows.select(pl.col(name).cast(dtype(kind)) for name, kind in wanted)
