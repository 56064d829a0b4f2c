"""The input row of an operator as text, and back: a dead letter of an operator can enter it again.

`row` has the columns of the event. `rest` has what else comes to an operator: the numbers of the input and of its
stream, the sign, and the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.kernel.operators.base import SIGN, column_name, key_name
from penstock.kernel.operators.rows import NTH, nothing_in
from penstock.runtime.epoch.job import OperatorInput
from penstock.runtime.epoch.wire import as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The number of the operator's input.
INPUT: Final = "__input"


def rest_of(rows: pl.DataFrame, number: int) -> pl.Series:
    """What rows of an input have besides the columns of the event and their place, as JSON."""
    names = [name for name in rows.columns if name in ("__source", SIGN, NTH) or name.startswith(key_name(0)[:2])]
    numbered = rows.with_columns(pl.lit(number, pl.Int32).alias(INPUT))
    return numbered.select(as_json(numbered, [INPUT, *names])).to_series().alias("rest")


def entering_again(spark: SparkSession, letters: pl.DataFrame, into: OperatorInput) -> pl.DataFrame:
    """Dead letters as rows that come to an operator by one of its inputs. Spark parses them: it knows all types."""
    from pyspark.sql import functions as f

    empty = nothing_in(into.plan, into.columns)
    aggregates = [aggregate for _, aggregate in into.plan.view.aggregates if aggregate.inputs]
    kinds = [into.plan.view.input_types(aggregate)[0] or "string" for aggregate in aggregates]
    columns = ", ".join(f"`{name}` {kind}" for name, kind in zip(into.columns, kinds, strict=True))
    keys = [(key_name(nth), into.plan.key_names[name]) for nth, name in enumerate(into.plan.keys)]
    own = ", ".join(f"`{name}` {kind}" for name, kind in [*keys, ("__source", "int"), (SIGN, "int"), (NTH, "int")])
    sent = letters.select("row", "rest", pl.col("at").dt.epoch("us").alias("__at"), "partition", "offset")
    frame = spark.createDataFrame(sent.to_arrow(compat_level=pl.CompatLevel.oldest()))
    parsed = frame.withColumns({"__row": f.from_json("row", columns), "__rest": f.from_json("rest", own)})
    rows = parsed.select(
        "__at", "__rest.__source", f.col("partition").alias("__partition"), f.col("offset").alias("__offset"),
        f"__rest.{SIGN}", f"__rest.{NTH}", *(f"__rest.`{name}`" for name, _ in keys),
        *(f.col(f"__row.`{name}`").alias(column_name(name)) for name in into.columns),
    )  # fmt: skip
    parsed_rows = pl.from_arrow(rows.toArrow())
    assert isinstance(parsed_rows, pl.DataFrame)
    nth = [NTH] if parsed_rows[NTH].null_count() == 0 else []
    return parsed_rows.with_columns(pl.col(name).cast(kind) for name, kind in empty.schema.items()).select(
        *empty.columns, *nth
    )


def of_input(letters: pl.DataFrame, number: int) -> pl.DataFrame:
    """The dead letters that came by one input of an operator."""
    return letters.filter(pl.col("rest").str.json_path_match(f"$.{INPUT}") == str(number))
