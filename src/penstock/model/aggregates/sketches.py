"""Approximate answers of bounded size: distinct values and quantiles, by Apache DataSketches.

A partial is the sketch's bytes, which Spark's own functions read, such as
`hll_sketch_estimate` and `kll_sketch_get_quantile_double`.

>>> approx_distinct("user"), quantile("latency", [0.5, 0.99])
(ps.approx_distinct('user'), ps.quantile('latency', [0.5, 0.99]))
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NoReturn

from penstock.errors import DefinitionError
from penstock.model import types as kinds
from penstock.model.aggregates.base import Aggregate, Origin, Value, refuse_type
from penstock.model.expressions import Sql, sql_text


def library() -> Any:
    """DataSketches, loaded when the first sketch is made."""
    import datasketches  # type: ignore[import-untyped]

    return datasketches


@dataclass(frozen=True, repr=False)
class Sketch(Aggregate):
    """Partial: bytes. `digest` makes them from values and how often each comes, `union` from other bytes."""

    exact: ClassVar[bool] = False
    #: The exact aggregate to use where a sketch will not do.
    instead: ClassVar[str]

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    @abstractmethod
    def digest(self, values: Iterable[tuple[Any, int]]) -> bytes:
        """The sketch of values that are not null, each with how often it comes."""

    @abstractmethod
    def union(self, parts: Sequence[bytes]) -> bytes:
        """The sketch of all that the parts have seen."""

    def zero(self) -> bytes:
        return self.digest(())

    def lift(self, values: tuple[Value, ...], origin: Origin) -> bytes:
        (value,) = values
        return self.digest(() if value is None else ((value, 1),))

    def merge(self, a: bytes, b: bytes) -> bytes:
        return self.union((a, b))

    def retractable(self) -> NoReturn:
        raise DefinitionError(f"{self.word} cannot take retractions: use {self.instead}", detail=f"in {self!r}")


@dataclass(frozen=True, repr=False)
class ApproxDistinct(Sketch):
    """How many different values, by a HyperLogLog sketch of 2^lg_k bytes.

    The answer does not depend on the order of rows, batches or merges. An empty string is not counted, as in Spark's
    `hll_sketch_agg`.
    """

    word: ClassVar[str] = "approx_distinct"
    instead: ClassVar[str] = "count_distinct"

    lg_k: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.lg_k, int) or not 4 <= self.lg_k <= 21:
            raise DefinitionError(f"lg_k of ps.approx_distinct must be from 4 to 21, and is {self.lg_k!r}")

    @property
    def tolerance(self) -> str:
        error = 1.04 / math.sqrt(1 << self.lg_k)
        return f"within ±{3 * error:.2%} of the exact number in 99 of 100 cases (standard error {error:.2%})"

    def result_type(self, types: tuple[str, ...]) -> str:
        kind = types[0]
        if kind == "binary" or kind.startswith(("array<", "struct<", "map<")):
            raise refuse_type(self, kind, "numbers, text, booleans, dates and timestamps", hint=f"use hex({self.x})")
        return "bigint"

    def digest(self, values: Iterable[tuple[Any, int]]) -> bytes:
        sketch = library().hll_sketch(self.lg_k, library().HLL_8)
        for value, _ in values:
            sketch.update(_item(value))
        return bytes(sketch.serialize_compact())

    def union(self, parts: Sequence[bytes]) -> bytes:
        return bytes(self._united(parts).serialize_compact())

    def present(self, p: bytes) -> int:
        # A sketch that was fed row by row estimates from the order of its rows. One that was united estimates from its
        # registers alone: so it is united with itself, and the answer is the same however the rows came.
        return int(self._united((p, p)).get_estimate() + 0.5)

    def _united(self, parts: Sequence[bytes]) -> Any:
        union = library().hll_union(self.lg_k)
        for part in parts:
            union.update(library().hll_sketch.deserialize(part))
        return union.get_result(library().HLL_8)


def _item(value: Any) -> Any:
    """A value as the sketch hashes it."""
    if isinstance(value, bool):
        return int(value)
    return format(value, "f") if isinstance(value, Decimal) else value


@dataclass(frozen=True, repr=False)
class Quantile(Sketch):
    """The value below which a part `q` of the values lies, by a KLL sketch. NaN is skipped.

    Exact up to `k` values. Above, the sketch drops values at random: two runs may differ within the tolerance.
    """

    word: ClassVar[str] = "quantile"
    instead: ClassVar[str] = "collect_list, and sort it where you read the view"

    q: float | tuple[float, ...]
    k: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        for q in self.quantiles:
            if not isinstance(q, (int, float)) or not 0 <= q <= 1:
                raise DefinitionError(f"a quantile must be from 0 to 1, and is {q!r}", hint="the median is 0.5")
        if not self.quantiles:
            raise DefinitionError("ps.quantile needs at least one quantile", hint="the median is 0.5")
        if not isinstance(self.k, int) or not 8 <= self.k <= 65535:
            raise DefinitionError(f"k of ps.quantile must be from 8 to 65535, and is {self.k!r}")

    @property
    def quantiles(self) -> tuple[float, ...]:
        return self.q if isinstance(self.q, tuple) else (self.q,)

    @property
    def tolerance(self) -> str:
        error = library().kll_doubles_sketch(self.k).normalized_rank_error(False)
        return f"its rank is within ±{error:.2%} of q in 99 of 100 cases; exact up to {self.k} values"

    def result_type(self, types: tuple[str, ...]) -> str:
        if not kinds.is_numeric(types[0]):
            raise refuse_type(self, types[0], "numbers", hint=f"cast it, for example: cast({self.x} AS double)")
        return "array<double>" if isinstance(self.q, tuple) else "double"

    def digest(self, values: Iterable[tuple[Any, int]]) -> bytes:
        sketch = library().kll_doubles_sketch(self.k)
        for value, times in values:
            for _ in range(times):
                sketch.update(float(value))
        return bytes(sketch.serialize())

    def union(self, parts: Sequence[bytes]) -> bytes:
        sketch = library().kll_doubles_sketch(self.k)
        for part in parts:
            sketch.merge(library().kll_doubles_sketch.deserialize(part))
        return bytes(sketch.serialize())

    def present(self, p: bytes) -> float | list[float] | None:
        sketch = library().kll_doubles_sketch.deserialize(p)
        if sketch.is_empty():
            return None
        quantiles = [sketch.get_quantile(q, True) for q in self.quantiles]
        return quantiles if isinstance(self.q, tuple) else quantiles[0]

    def _arguments(self) -> Iterable[str]:
        x, _, *rest = super()._arguments()
        return x, repr(list(self.q) if isinstance(self.q, tuple) else self.q), *rest


def approx_distinct(x: Sql, *, lg_k: int = 12, where: Sql | None = None) -> ApproxDistinct:
    """About how many different values there are. lg_k = 12: 4 KB of state, a standard error of 1.6 %."""
    return ApproxDistinct(sql_text(x), lg_k, where=sql_text(where))


def quantile(x: Sql, q: float | Sequence[float], *, k: int = 200, where: Sql | None = None) -> Quantile:
    """About the value below which a part q of the values lies; for a list of q, a list. k = 200: rank within 1.33 %."""
    return Quantile(sql_text(x), q if isinstance(q, (int, float)) else tuple(q), k, where=sql_text(where))
