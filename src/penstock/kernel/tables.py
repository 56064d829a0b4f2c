"""Tables on columns: a version of a table in this process, and what events find in it.

A version never changes, so that a process reads it once, however many epochs it is asked in. Of a large one it reads
only the rows that events ask for (`lookup`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from penstock.kernel import lookup
from penstock.kernel.expressions import dtype
from penstock.kernel.values import model_series
from penstock.model.table import Snapshot, Table, TableJoin
from penstock.model.time import BEGINNING
from penstock.model.types import is_integer
from penstock.process_state import RecentlyUsed, process

#: Not null where an event has found a row.
HIT = pl.col("__hit")
_SINCE, _UNTIL = "__since", "__until"
#: How many tables a process keeps.
_MOST_TABLES: Final = 64


def find(step: TableJoin, frame: pl.LazyFrame, keys: Sequence[pl.Expr]) -> pl.LazyFrame:
    """The events, each with the row that it finds; nothing is left out."""
    names, snapshot = key_names(step.table), step.snapshot or Snapshot(0)
    kinds = [dtype(_wide(step.table.schema.type_of(name))) for name in step.table.key]
    made = (key.cast(kind, strict=False).alias(name) for key, kind, name in zip(keys, kinds, names, strict=True))
    left = frame.with_columns(*made)
    if snapshot.large:
        events = left.collect()
        near = rows_near(step.table, snapshot, events.select(names))
        table, left = _prepared(step.table, near), events.lazy()
    else:
        table = looked_up(step.table, snapshot)
    columns = [pl.col(f"t:{column}").alias(name) for name, column in step.joined]
    right = table.lazy().select(*names, "__hit", *(c for c in (_SINCE, _UNTIL) if c in table.columns), *columns)
    if step.table.valid_from is None:
        return left.join(right, on=names, how="left", maintain_order="left")
    joined = left.sort("__at").join_asof(
        right, left_on="__at", right_on=_SINCE, by=names, strategy="backward", check_sortedness=False
    )
    if step.table.valid_to is None:
        return joined
    over = pl.col(_UNTIL) <= pl.col("__at")
    return joined.with_columns(
        pl.when(over.fill_null(False)).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("__hit", *(name for name, _ in step.joined))
    )


def looked_up(table: Table, snapshot: Snapshot) -> pl.DataFrame:
    """A version as things are looked up in it."""
    versions = process.of(TableVersions)
    known = versions.get(table)
    if known is None or known[0] != snapshot:
        known = snapshot, _prepared(table, frame_of(table, snapshot))
        versions.put(table, known)
    return known[1]


class TableVersions(RecentlyUsed[Table, tuple[Snapshot, pl.DataFrame]]):
    """Of each table the version that this process was last asked for. Epochs ask for the same one many times."""

    def __init__(self) -> None:
        super().__init__(_MOST_TABLES)


def rows_near(table: Table, snapshot: Snapshot, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of a large version with one of these keys, in the widest type. Rows of other keys may come along."""
    assert snapshot.path is not None
    files = process.of(lookup.OpenLookups).made(str(Path(snapshot.path) / lookup.FOLDER), lookup.Lookup)
    return _typed(table, files.rows(lookup.numbers(keys.unique().drop_nulls())))


def key_frame(table: Table, key: Sequence[object]) -> pl.DataFrame:
    """One key, of values of the model, in the widest type."""
    from penstock.kernel.values import model_series

    kinds = [_wide(table.schema.type_of(name)) for name in table.key]
    return pl.DataFrame(
        [model_series(name, kind, [one]) for name, kind, one in zip(key_names(table), kinds, key, strict=True)]
    )


def write_sorted(table: Table, rows: pl.DataFrame, path: Path) -> None:
    """Rows of a version as a file that is looked things up in."""
    kept = rows.drop_nulls(list(table.key))
    numbers = lookup.numbers(kept.select(wide_keys(table)))
    lookup.write(_typed(table, kept).with_columns(numbers), path)


def key_names(table: Table) -> list[str]:
    """What the columns of a key are called while they are compared."""
    return [f"__k{number}" for number in range(len(table.key))]


def wide_keys(table: Table) -> list[pl.Expr]:
    """The columns of a key as they are compared."""
    kinds = [dtype(_wide(table.schema.type_of(name))) for name in table.key]
    return [
        pl.col(own).cast(kind).alias(name) for own, kind, name in zip(table.key, kinds, key_names(table), strict=True)
    ]


def _prepared(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Keys in the widest type, and from when to when rows are valid."""
    made = rows.select(
        *wide_keys(table),
        pl.lit(True).alias("__hit"),
        *(pl.col(name).alias(f"t:{name}") for name in table.schema.names),
        *([pl.col(table.valid_from).to_physical().fill_null(BEGINNING).alias(_SINCE)] if table.valid_from else []),
        *([pl.col(table.valid_to).to_physical().alias(_UNTIL)] if table.valid_to else []),
    ).drop_nulls(key_names(table))
    return made.sort(_SINCE) if table.valid_from else made


def frame_of(table: Table, snapshot: Snapshot) -> pl.DataFrame:
    """All rows of a version."""
    if snapshot.path is not None:
        rows = pl.read_parquet(f"{snapshot.path}/*.parquet", columns=list(table.schema.names), hive_partitioning=False)
        return _typed(table, rows)
    columns = list(zip(*snapshot.rows, strict=True)) or [()] * len(table.schema.names)
    made = zip(table.schema, columns, strict=True)
    return pl.DataFrame([model_series(name, kind, list(values)) for (name, kind), values in made])


def _typed(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(dtype(kind)) for name, kind in table.schema)


def _wide(kind: str) -> str:
    """The type in which keys are compared."""
    return "bigint" if is_integer(kind) else kind
