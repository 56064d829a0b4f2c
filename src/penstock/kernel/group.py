"""Grouping by several columns of whole numbers at the price of one: their values are packed into a single number.

Polars groups one column of integers faster than several, by more than packing costs once there are four. Where the
values of a batch span so little that all combinations fit into 63 bits, the columns become the digits of one number,
and are taken apart again for each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

#: Fewer columns, and batches below this size, are grouped as they are: looking at the values would cost more.
PACK_COLUMNS, PACK_FROM = 4, 20_000
_ROOM = 1 << 62


def group(
    rows: pl.LazyFrame, by: Sequence[str], types: Mapping[str, pl.DataType], parts: Sequence[pl.Expr], count: int
) -> pl.LazyFrame:
    """`rows.group_by(by).agg(parts)`, for `count` rows; `types` are those of the columns in `by`."""
    whole = [name for name in by if types[name].is_integer() or types[name] == pl.Boolean]
    if len(whole) < PACK_COLUMNS or count < PACK_FROM:
        return rows.group_by(by).agg(parts)
    digits = _digits(rows, whole)
    if digits is None:
        return rows.group_by(by).agg(parts)
    packed, unpacked = pl.lit(0, pl.Int64), []
    place = 1
    for name, (low, span) in digits.items():
        digit = (pl.col(name).cast(pl.Int64) - (low - 1)).fill_null(0)  # 0 stands for null
        packed = packed + digit * place
        taken = pl.col("__packed") // place % span
        value = pl.when(taken > 0).then(taken + (low - 1)).cast(types[name])
        unpacked.append(value.alias(name))
        place *= span
    others = [name for name in by if name not in digits]
    grouped = rows.with_columns(packed.alias("__packed")).group_by("__packed", *others).agg(parts)
    return grouped.with_columns(unpacked).drop("__packed")


def _digits(rows: pl.LazyFrame, names: Sequence[str]) -> dict[str, tuple[int, int]] | None:
    """The smallest value of each column and how many digits it needs; None where they do not fit together."""
    columns = [pl.col(name).cast(pl.Int64) for name in names]
    bounds = rows.select(
        *(column.min().alias(f"low:{name}") for name, column in zip(names, columns, strict=True)),
        *(column.max().alias(f"high:{name}") for name, column in zip(names, columns, strict=True)),
    ).collect()
    room, digits = 1, {}
    for name in names:
        low, high = bounds[f"low:{name}"].item(), bounds[f"high:{name}"].item()
        low, high = (0, -1) if low is None else (low, high)
        digits[name] = (low, high - low + 2)
        room *= high - low + 2
    return digits if room < _ROOM else None
