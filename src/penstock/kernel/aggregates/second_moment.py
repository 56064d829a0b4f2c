"""The tug-of-war sketch on columns: the model's counters, hashed and added with NumPy and Polars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from penstock.kernel.aggregates.base import SIGN, Columns, canonical, only
from penstock.kernel.aggregates.lists import ROW, blank, elements, exploded, gather, put_back, tally, total
from penstock.model.aggregates import SecondMoment
from penstock.model.aggregates.second_moment import GAMMA, MIX_A, MIX_B, hash64, seed
from penstock.model.types import is_float


class SecondMomentColumns(Columns):
    """`name`: a list of structs (cell, times), the counters that are not zero."""

    needs_settle = True
    aggregate: SecondMoment

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.List(pl.Struct({"cell": pl.Int32(), "times": pl.Int64()}))}

    @property
    def _rows(self) -> str:
        return f"{self.name}.rows"

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        sign = SIGN.cast(pl.Int64) if self.signed else pl.lit(1, dtype=pl.Int64)
        value = canonical(inputs[0], self.types[0])
        return [only(pl.struct(value.alias("value"), sign.alias("times")), where, inputs[0]).alias(self._rows)]

    def combine(self) -> list[pl.Expr]:
        return [exploded(self.name)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self._rows not in frame.columns:
            return tally(frame, self.name, ["cell"])
        counted = total(elements(frame, self._rows), ["value"])
        return gather(frame.drop(self._rows), self.name, total(self._cells(counted), ["cell"]))

    def _cells(self, values: pl.DataFrame) -> pl.DataFrame:
        """For each value the counter of each row of counters that it pulls at, and which way."""
        hashed = _hash64(values["value"], self.types[0])
        width, pulls = np.uint64(self.aggregate.width), []
        for row in range(self.aggregate.depth):
            bits = _mix(hashed ^ np.uint64(seed(row)))
            cell = (bits >> np.uint64(1)) % width + np.uint64(row) * width
            way = (bits & np.uint64(1)).astype(np.int64) * 2 - 1
            pulls.append(
                pl.DataFrame(
                    {ROW: values[ROW], "cell": cell.astype(np.int32), "times": values["times"] * pl.Series(way)}
                )
            )
        return pl.concat(pulls)

    def negate(self) -> list[pl.Expr]:
        back = pl.element().struct.with_fields(-pl.element().struct.field("times"))
        return [pl.col(self.name).list.eval(back)]

    def present(self, frame: pl.DataFrame) -> pl.Series:
        squares = pl.col("times").cast(pl.Int128) ** 2
        row = pl.col("cell") // self.aggregate.width
        names = [f"row{i}" for i in range(self.aggregate.depth)]
        sums = (pl.when(row == i).then(squares).sum().cast(pl.Float64).alias(name) for i, name in enumerate(names))
        row_sums = elements(frame, self.name).group_by(ROW).agg(sums)
        rows = put_back(blank(frame), row_sums, dict.fromkeys(names, pl.lit(0.0)))
        return rows.select(pl.concat_list(names).list.median().alias(self.name)).to_series()

    def zero(self) -> dict[str, object]:
        return {self.name: []}


def _mix(bits: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """splitmix64's finaliser, as the model's."""
    bits = bits + np.uint64(GAMMA)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(MIX_A)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(MIX_B)
    return bits ^ (bits >> np.uint64(31))


def _hash64(values: pl.Series, kind: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The model's `hash64`: numbers by their bits; text, bytes and decimals one by one, each different one once."""
    if is_float(kind):
        return values.cast(pl.Float64).fill_nan(math.nan).to_numpy().view(np.uint64)
    if kind in ("string", "binary") or kind.startswith("decimal("):
        distinct = values.unique()
        hashes = pl.Series([hash64(value) for value in distinct.to_list()], dtype=pl.UInt64)
        return values.replace_strict(distinct, hashes, return_dtype=pl.UInt64).to_numpy()
    return values.to_physical().cast(pl.Int64).to_numpy().view(np.uint64)
