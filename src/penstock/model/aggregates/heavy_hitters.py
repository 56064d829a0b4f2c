"""The values that come most often, by a frequent-items sketch.

>>> heavy_hitters("page", limit=3, where="country = 'CH'")
ps.heavy_hitters('page', limit=3, where="country = 'CH'")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import refuse_type
from penstock.model.aggregates.sketches import Sketch, library
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import canonical, key


@dataclass(frozen=True, repr=False)
class HeavyHitters(Sketch):
    """At most `limit` values with an estimate of how often each comes, most often first, then smallest first.

    Exact while there are fewer different values than ¾ of `size`.
    """

    word: ClassVar[str] = "heavy_hitters"
    instead: ClassVar[str] = "a view grouped by the value with ps.count()"

    limit: int = 10
    size: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.limit, int) or self.limit < 1:
            raise DefinitionError(f"limit of ps.heavy_hitters must be at least 1, and is {self.limit!r}")
        if not isinstance(self.size, int) or not 8 <= self.size <= 1 << 26 or self.size & (self.size - 1):
            raise DefinitionError(
                f"size of ps.heavy_hitters must be a power of two from 8 to 2^26, and is {self.size!r}",
                hint="1024 finds values of more than 0.34 % of the rows",
            )

    @property
    def tolerance(self) -> str:
        return f"an estimate is at most {3.5 / self.size:.2%} of all rows off; exact below {self.size * 3 // 4} values"

    def result_type(self, types: tuple[str, ...]) -> str:
        if types[0].startswith(("array<", "struct<", "map<")):
            raise refuse_type(self, types[0], "numbers, text, binary, booleans, dates and timestamps")
        return f"array<struct<item:{types[0]},estimate:bigint>>"

    def digest(self, values: Iterable[tuple[Any, int]]) -> bytes:
        sketch = self._fresh()
        for value, times in values:
            sketch.update(_write(canonical(value)), times)
        return bytes(sketch.serialize())

    def union(self, parts: Sequence[bytes]) -> bytes:
        sketch = self._fresh()
        for part in parts:
            sketch.merge(type(sketch).deserialize(part))
        return bytes(sketch.serialize())

    def present(self, p: bytes) -> list[dict[str, Any]]:
        sketch = library().frequent_strings_sketch.deserialize(p)
        estimates = sketch.get_frequent_items(library().NO_FALSE_NEGATIVES, 0)
        items = [{"item": _read(text), "estimate": int(estimate)} for text, estimate, _, _ in estimates]
        return sorted(items, key=lambda each: (-each["estimate"], key(each["item"])))[: self.limit]

    def _fresh(self) -> Any:
        return library().frequent_strings_sketch(self.size.bit_length() - 1)


def _write(value: Any) -> str:
    """A value as text that says its kind, since the sketch holds text."""
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    if isinstance(value, Decimal):
        return f"d{value:f}"
    return f"{'i' if isinstance(value, int) else 'f' if isinstance(value, float) else 's'}{value}"


def _read(text: str) -> Any:
    kind, rest = text[0], text[1:]
    readers: dict[str, Any] = {
        "b": lambda digit: digit == "1", "x": bytes.fromhex, "d": Decimal, "i": int, "f": float, "s": str,
    }  # fmt: skip
    return readers[kind](rest)


def heavy_hitters(x: Sql, *, limit: int = 10, size: int = 1024, where: Sql | None = None) -> HeavyHitters:
    """The values that come most often, as structs (item, estimate). size: the sketch's table, a power of two."""
    return HeavyHitters(sql_text(x), limit, size, where=sql_text(where))
