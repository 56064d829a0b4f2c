"""Events of streams as tuples: columns as values that code has, the trees that they begin, and the tasks by fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import polars as pl

from penstock.kernel.hashing import mixed
from penstock.model.kinds import Kind, kind_of
from penstock.runtime.epoch.wire import plain
from penstock.topology.definition import Fields
from penstock.topology.groupings import key_of, task_of

Numbers: TypeAlias = np.ndarray[Any, Any]


def python_rows(frame: pl.DataFrame, fields: Fields) -> list[tuple[Any, ...]]:
    """Rows as code has them: times as datetimes, not as numbers."""
    assert fields.schema is not None
    columns = [_given(plain(frame[name]), kind_of(kind)) for name, kind in fields.schema]
    return list(zip(*columns, strict=True))


def keyed(rows: pl.DataFrame, names: Sequence[str], fields: Fields, tasks: int) -> tuple[Numbers, list[bytes]]:
    """The task of each row by the values of some fields, and the keys that there are."""
    assert fields.schema is not None
    picked = rows.select(plain(rows[name]).alias(name) for name in names)
    unique = picked.unique()
    kinds = {name: kind_of(fields.schema.type_of(name)) for name in names}
    keys = [key_of(values) for values in zip(*(_given(unique[name], kinds[name]) for name in names), strict=True)]
    with_tasks = unique.with_columns(pl.Series("__task", [task_of(key, tasks) for key in keys], pl.Int64))
    joined = picked.join(with_tasks, on=list(names), how="left", nulls_equal=True, maintain_order="left")
    return joined["__task"].to_numpy(), keys


def roots_of(spout: str, rows: pl.DataFrame) -> Numbers:
    """The trees that events begin, by their places: a hash that needs no state (splitmix64)."""
    with np.errstate(over="ignore"):
        x = rows["__offset"].to_numpy().astype(np.uint64)
        x = x + rows["__partition"].to_numpy().astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
        x = x + np.uint64(crc32(spout.encode()) * 0x9E3779B97F4A7C15 % (1 << 64))
        x = mixed(x)
    return np.maximum(x, np.uint64(1))


def _given(column: pl.Series, kind: Kind) -> list[Any]:
    values = column.to_list()
    return values if kind.give is None else list(map(kind.given, values))
