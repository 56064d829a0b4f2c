"""What orders rows of equal rank, in partials that keep rows: their position in the log."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import OFFSET, ORDINAL, PARTITION, Expressive
from penstock.model.aggregates import Aggregate


class Positioned(Expressive):
    """Columns of rows with a rank, a position and a value. Where rows are `made`, the position has an ordinal."""

    def __init__(
        self, aggregate: Aggregate, name: str, types: tuple[str, ...], signed: bool = False, made: bool = False
    ) -> None:
        self.position = (PARTITION, OFFSET, ORDINAL) if made else (PARTITION, OFFSET)
        places = ("partition", "offset", "ordinal") if made else ("partition", "offset")
        #: The parts of a row, in the order in which rows are compared.
        self.parts = ("rank", *places, "value")
        super().__init__(aggregate, name, types, signed)

    def part_types(self, rank: pl.DataType, value: pl.DataType) -> dict[str, pl.DataType]:
        """The types of the parts."""
        known: dict[str, pl.DataType] = {"rank": rank, "partition": pl.Int32(), "value": value}
        return {part: known.get(part, pl.Int64()) for part in self.parts}
