"""The rows that come to an operator, from the elements of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.base import SIGN, column_name, key_name
from penstock.kernel.plan import ORDINAL, PLACE, POSITION, Plan, nothing

#: The number of a row among those that come from one place.
NTH: Final = "__nth"


def rows_in(plan: Plan, names: Sequence[str], elements: pl.LazyFrame, source: int) -> pl.DataFrame:
    """Elements as the columns of `kernel.operators.base`. `names` are the event's columns, in the order of the plan.

    `source` is the number of the stream that they come from, among all that the operator reads.
    """
    texts = [aggregate.inputs[0] for _, aggregate in plan.view.aggregates if aggregate.inputs]
    columns = [pl.col(plan.inputs[text]).alias(column_name(name)) for text, name in zip(texts, names, strict=True)]
    keys = [pl.col(name).alias(key_name(number)) for number, name in enumerate(plan.keys)]
    sign = pl.col(SIGN) if plan.view.signed else pl.lit(1, pl.Int8).alias(SIGN)
    number = pl.lit(source, pl.Int32).alias("__source")
    ordinal = [ORDINAL] if plan.makes_rows else []
    return elements.select("__at", number, *PLACE, *ordinal, sign, *keys, *columns).collect()


def numbered(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with their number among those that come from one place, where an event may come several times."""
    if plan.makes_rows:
        rows = rows.sort(*POSITION, ORDINAL).drop(ORDINAL)
    sources = [branch.source.name for branch in plan.branches]
    if len(set(sources)) == len(sources) and not plan.makes_rows:
        return rows
    return rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).over(POSITION).alias(NTH))


def nothing_in(plan: Plan, names: Sequence[str]) -> pl.DataFrame:
    """No rows for an operator, with their columns."""
    kinds = plan.view.input_types
    schema: dict[str, pl.DataType] = {"__at": pl.Int64(), "__source": pl.Int32(), "__partition": pl.Int32()}
    schema |= {"__offset": pl.Int64(), SIGN: pl.Int8()}
    schema |= {key_name(number): plan.key_types[name] for number, name in enumerate(plan.keys)}
    aggregates = [aggregate for _, aggregate in plan.view.aggregates if aggregate.inputs]
    for name, aggregate in zip(names, aggregates, strict=True):
        schema[column_name(name)] = dtype(kinds(aggregate)[0] or "string")
    return nothing(schema)
