"""Work on the elements of a list column, all rows at once: explode, compute, and put back.

>>> frame = pl.DataFrame({"k": ["a", "b"], "bag": [[{"v": 1, "times": 1}, {"v": 1, "times": 1}], []]})
>>> tally(frame, "bag", ["v"]).to_dict(as_series=False)
{'k': ['a', 'b'], 'bag': [[{'v': 1, 'times': 2}], []]}
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

#: The number of the row that an element comes from.
ROW = "__row"


def elements(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The structs in a list column, one row each, with the number of the row that they come from."""
    rows = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias(ROW), name)
    return rows.explode(name, empty_as_null=False, keep_nulls=False).unnest(name)


def blank(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with as many rows, for `put_back`."""
    return frame.select(pl.int_range(pl.len()).alias("__all"))


def put_back(frame: pl.DataFrame, values: pl.DataFrame, fill: dict[str, pl.Expr]) -> pl.DataFrame:
    """The frame with the columns of `values` by row number; rows that it lacks get `fill`."""
    rows = pl.select(pl.int_range(frame.height, dtype=pl.UInt32).alias(ROW))
    joined = rows.join(values, on=ROW, how="left", maintain_order="left").drop(ROW)
    return frame.with_columns(joined.with_columns(pl.col(column).fill_null(value) for column, value in fill.items()))


def gather(frame: pl.DataFrame, name: str, element_rows: pl.DataFrame, limit: int | None = None) -> pl.DataFrame:
    """The frame with the list column `name` made of the rows of `element_rows`, as structs; at most `limit` of them.

    Elements come in the order of their rows, here and in `gather_values`.
    """
    parts = [column for column in element_rows.columns if column != ROW]
    return gather_values(frame, name, element_rows.select(ROW, pl.struct(parts).alias(name)), limit)


def gather_values(frame: pl.DataFrame, name: str, values: pl.DataFrame, limit: int | None = None) -> pl.DataFrame:
    """The frame with the list column `name` made of the column `name` of `values`; at most `limit` of each row."""
    lists = pl.col(name) if limit is None else pl.col(name).head(limit)
    groups = values.with_columns(pl.col(ROW).set_sorted()).group_by(ROW, maintain_order=True).agg(lists)
    return put_back(frame, groups, {name: pl.lit([], dtype=groups.schema[name])})


def tally(frame: pl.DataFrame, name: str, by: Sequence[str]) -> pl.DataFrame:
    """Adds up `times` of equal elements of a list column, drops those that come to zero, and sorts the others."""
    return gather(frame, name, total(elements(frame, name), by))


def total(element_rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """`tally` on elements."""
    sortable = [column for column in by if not element_rows.schema[column].is_nested()]
    counted = element_rows.group_by(ROW, *by).agg(pl.col("times").sum()).filter(pl.col("times") != 0)
    return counted.sort(ROW, *sortable)


def exploded(name: str) -> pl.Expr:
    """The elements of all lists of a group, as one list. Inside `group_by(…).agg(…)`."""
    return pl.col(name).explode(empty_as_null=False, keep_nulls=False).alias(name)


def field_of(name: str, part: str) -> pl.Expr:
    """The lists of one part of the structs in a list column."""
    return pl.col(name).list.eval(pl.element().struct.field(part)).alias(name)
