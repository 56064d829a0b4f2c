"""Sketches on columns: Polars brings the values of each group together, DataSketches does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import polars as pl

from penstock.kernel.aggregates.base import canonical, only
from penstock.kernel.aggregates.lists import ROW, blank, gather
from penstock.kernel.aggregates.looped import Looped
from penstock.kernel.aggregates.plain import from_python, to_python
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import HeavyHitters, Quantile, Sketch
from penstock.model.aggregates.sketches import library


class SketchColumns(Looped):
    """`name`: the sketch's bytes."""

    aggregate: Sketch

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.Binary()}

    def union(self, parts: list[bytes]) -> bytes:
        return self.aggregate.union(parts)

    @property
    def answer(self) -> Callable[[bytes], Any]:
        return self.aggregate.present

    def zero(self) -> dict[str, object]:
        return {self.name: self.aggregate.zero()}


class ApproxDistinctColumns(SketchColumns):
    """Only the different values of a group are fed: Polars finds them faster than the sketch hashes them."""

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        value = canonical(to_python(inputs[0], self.types[0]), self.types[0])
        return [only(value, where, inputs[0]).unique().alias(self.rows)]

    def digest(self, frame: pl.DataFrame) -> Iterator[bytes]:
        return (self.aggregate.digest(zip(values, repeat(1))) for values in frame[self.rows].to_list())


class QuantileColumns(SketchColumns):
    """The values of a group are fed as one array."""

    aggregate: Quantile

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [only(inputs[0].cast(pl.Float64), where, inputs[0]).alias(self.rows)]

    def digest(self, frame: pl.DataFrame) -> Iterator[bytes]:
        values = (
            frame[self.rows].explode(empty_as_null=False, keep_nulls=False).to_numpy(writable=True)
        )  # as the sketch asks
        start = 0
        for length in frame[self.rows].list.len().to_list():
            sketch = library().kll_doubles_sketch(self.aggregate.k)
            sketch.update(values[start : start + length])
            start += length
            yield bytes(sketch.serialize())


class HeavyHittersColumns(SketchColumns):
    """Each different value of a group is fed once, with how often it comes."""

    aggregate: HeavyHitters

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        value = canonical(to_python(inputs[0], self.types[0]), self.types[0])
        return [only(value, where, inputs[0]).alias(self.rows)]

    def digest(self, frame: pl.DataFrame) -> Iterator[bytes]:
        rows = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias(ROW), self.rows)
        counted = rows.explode(self.rows, empty_as_null=False, keep_nulls=False).group_by(ROW, self.rows).len()
        # Sorted, so that the same rows make the same sketch.
        groups = counted.sort(ROW, self.rows).group_by(ROW, maintain_order=True).agg(self.rows, "len")
        counts_by_row = {row: zip(values, times, strict=True) for row, values, times in groups.iter_rows()}
        return (self.aggregate.digest(counts_by_row.get(row, ())) for row in range(frame.height))

    @property
    def result(self) -> pl.DataType:
        return pl.List(pl.Struct({"item": dtype(self.types[0]), "estimate": pl.Int64()}))

    def present(self, frame: pl.DataFrame) -> pl.Series:
        answers = [self.aggregate.present(p) for p in frame[self.name].to_list()]
        flat = [each for answer in answers for each in answer]
        items = from_python("item", [each["item"] for each in flat], self.types[0])
        pairs = pl.DataFrame([items, pl.Series("estimate", [each["estimate"] for each in flat], dtype=pl.Int64)])
        rows = pl.Series(ROW, [row for row, answer in enumerate(answers) for _ in answer], dtype=pl.UInt32)
        return gather(blank(frame), self.name, pairs.insert_column(0, rows))[self.name]
