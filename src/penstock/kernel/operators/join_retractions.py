"""Finds the rows that retractions take back: those with the same key, time and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernel.nested import packed
from penstock.kernel.operators.base import SIGN
from penstock.kernel.operators.join_side import PLACE
from penstock.kernel.rows import as_binary, split

#: Whether a row came in this commit (1), stays (0), or is taken back (-1).
STATUS = "__status"


@dataclass(frozen=True)
class Retracted:
    """What retractions leave: rows with their status, and retractions that found no row."""

    rows: pl.DataFrame
    unmatched: pl.DataFrame


def retracted(arrivals: pl.DataFrame, waiting: pl.DataFrame, compared: Sequence[str]) -> Retracted:
    """What comes of rows that arrive, some of which take others back, and of those that wait.

    Each retraction takes back the last row of this commit that has its identity or, if there is none, the last one of
    those that wait. Retractions are taken in the order of their places.
    """
    inserted = arrivals.filter(pl.col(SIGN) > 0).drop(SIGN)
    taking = arrivals.filter(pl.col(SIGN) < 0).drop(SIGN)
    rows = pl.concat(
        [
            inserted.with_columns(pl.lit(1, pl.Int8).alias(STATUS)),
            waiting.with_columns(pl.lit(0, pl.Int8).alias(STATUS)),
        ]
    )
    if not taking.height:
        return Retracted(rows, taking)
    asked = taking.select(*PLACE, identities(taking, compared)).with_row_index("__row")
    asked = asked.sort("__identity", *PLACE).with_columns(_rank())
    known = rows.select(*PLACE, STATUS, identities(rows, compared)).with_row_index("__found_row")
    known = known.join(asked.select("__identity"), on="__identity", how="semi")
    known = known.sort("__identity", STATUS, *PLACE, descending=[False, *[True] * 5]).with_columns(_rank())
    both = asked.join(known.select("__identity", "__rank", "__found_row"), on=["__identity", "__rank"], how="left")
    taken = np.zeros(rows.height, np.bool_)
    taken[both["__found_row"].drop_nulls().to_numpy()] = True
    rows = rows.with_columns(pl.Series("__taken", taken)).filter((pl.col(STATUS) == 0) | ~pl.col("__taken"))
    status = pl.when("__taken").then(pl.lit(-1, pl.Int8)).otherwise(STATUS).alias(STATUS)
    unmatched = both.filter(pl.col("__found_row").is_null())["__row"].sort()
    return Retracted(rows.with_columns(status).drop("__taken"), taking[unmatched])


def _rank() -> pl.Expr:
    """The number of a row among those with the same identity."""
    return pl.int_range(pl.len()).over("__identity").alias("__rank")


def identities(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Values of columns as bytes: equal bytes exactly for equal values. -0.0 is not 0.0, and every NaN is one."""
    series = [packed(one) if one.dtype.is_nested() else one for one in rows.select(columns).get_columns()]
    heads, texts = split([one.fill_nan(float("nan")) if one.dtype.is_float() else one for one in series])
    encoded = as_binary(np.arange(rows.height + 1) * heads.dtype.itemsize, pa.py_buffer(heads))
    if texts:
        encoded = pc.binary_join_element_wise(encoded, *texts, pa.scalar(b"", pa.large_binary()))
    return pl.Series("__identity", encoded, dtype=pl.Binary)
