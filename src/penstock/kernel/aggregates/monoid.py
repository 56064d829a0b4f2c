"""A user's monoid on columns: its functions, row by row and part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import polars as pl

from penstock.kernel.aggregates.base import SIGN, only
from penstock.kernel.aggregates.looped import Looped
from penstock.kernel.aggregates.plain import to_python
from penstock.model.aggregates import Monoid


class MonoidColumns(Looped):
    """`name`: the encoded partial, text or binary as `encode` gives it."""

    aggregate: Monoid

    def partial(self) -> dict[str, pl.DataType]:
        stored = self.aggregate.encode(self.aggregate.zero())
        return {self.name: pl.String() if isinstance(stored, str) else pl.Binary()}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        values = self.values(inputs)
        sign = SIGN if self.signed else pl.lit(1, dtype=pl.Int8)
        return [only(pl.struct(sign.alias("sign"), *values), where, *inputs).alias(self.rows)]

    def values(self, inputs: tuple[pl.Expr, ...]) -> list[pl.Expr]:
        """The inputs as the user's functions get them."""
        kinds = enumerate(zip(inputs, self.types, strict=True))
        return [to_python(x, kind).alias(f"v{number}") for number, (x, kind) in kinds]

    def digest(self, frame: pl.DataFrame) -> Iterator[str | bytes]:
        monoid = self.aggregate
        for rows in frame[self.rows].to_list():
            partial = monoid.zero()
            for row in rows:
                sign, *values = row.values()
                lifted = monoid.lifting(*values)
                partial = monoid.merge(partial, lifted if sign > 0 else monoid.inverse(lifted))
            yield monoid.encode(partial)

    def union(self, parts: list[str | bytes]) -> str | bytes:
        return self.aggregate.encode(reduce(self.aggregate.merge, map(self.aggregate.decode, parts)))

    def negate(self) -> list[pl.Expr]:
        if self.aggregate.inverting is None:
            return super().negate()
        back = self._inverted
        return [pl.col(self.name).map_elements(back, return_dtype=self.fields[self.name])]

    def _inverted(self, stored: str | bytes) -> str | bytes:
        return self.aggregate.encode(self.aggregate.inverse(self.aggregate.decode(stored)))

    @property
    def answer(self) -> Callable[[Any], Any]:
        return lambda stored: self.aggregate.present(self.aggregate.decode(stored))

    def zero(self) -> dict[str, object]:
        return {self.name: self.aggregate.encode(self.aggregate.zero())}
