"""Partials that only Python can make and merge, group by group: sketches and users' monoids."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from penstock.kernel.aggregates.base import Columns
from penstock.kernel.aggregates.plain import from_python
from penstock.model.aggregates import Aggregate
from penstock.model.counters import collected


class Looped(Columns):
    """`name`: the stored partial. `reduce` gives lists of rows and `combine` lists of partials; `settle` loops."""

    needs_settle = True

    def __init__(self, aggregate: Aggregate, name: str, types: tuple[str, ...], signed: bool = False) -> None:
        self.rows, self.parts = f"{name}.rows", f"{name}.parts"
        super().__init__(aggregate, name, types, signed)

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self.name).alias(self.parts)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.rows in frame.columns:
            partials, done = self.digest(frame), self.rows
        else:
            # Most groups bring one part, which is the answer.
            merged = (parts[0] if len(parts) == 1 else self.union(parts) for parts in frame[self.parts].to_list())
            partials, done = merged, self.parts
        with collected():  # what is merged, and how often, depends on how rows are cut: it does not count
            column = pl.Series(self.name, list(partials), dtype=self.fields[self.name])
        return frame.drop(done).with_columns(column)

    @abstractmethod
    def digest(self, frame: pl.DataFrame) -> Iterable[Any]:
        """The stored partial of each group, from its rows."""

    @abstractmethod
    def union(self, parts: list[Any]) -> Any:
        """The stored partial of all parts."""

    def present(self, frame: pl.DataFrame) -> pl.Series:
        return from_python(self.name, list(map(self.answer, frame[self.name].to_list())), self.result_type)

    @property
    @abstractmethod
    def answer(self) -> Callable[[Any], Any]:
        """From the stored partial to the model's answer."""
