"""Compares what a query gave with what DuckDB says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

import polars as pl

from tests.comparison import same


def compare(got: Sequence[Mapping[str, object]], expected: pl.DataFrame) -> None:
    """Refuses any difference in the columns that are expected; rows come in any order."""
    names = expected.columns
    left = sorted(([plain(row[name]) for name in names] for row in got), key=repr)
    right = sorted(([plain(value) for value in row] for row in expected.rows()), key=repr)
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        assert same(a, b), f"got {a}, expected {b}"


def plain(value: object) -> object:
    """A value as both sides write it: times to the millisecond, sets in order."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > 18 and value[4] == "-" and value[10] in "T ":
        return datetime.fromisoformat(value).replace(tzinfo=None).isoformat(timespec="milliseconds")
    if isinstance(value, list):
        return sorted(value, key=repr) if value and isinstance(value[0], str) else value
    return value
