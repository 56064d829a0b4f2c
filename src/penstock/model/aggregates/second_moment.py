"""The second frequency moment (the sum of squares of how often each value comes), by a tug-of-war sketch.

It is the size of a self-join, and says how skewed the values are. The sketch is Alon, Matias and Szegedy's in its fast
form: each value adds ±1 to one counter in each of `depth` rows. It is linear, so it takes retractions.

>>> second_moment("user")
ps.second_moment('user')
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any, ClassVar, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.extremes import orderable
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import canonical

#: Counter (row · width + column) → its value; counters at zero are left out.
Counters: TypeAlias = dict[int, int]

_MASK = (1 << 64) - 1
#: splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
GAMMA, MIX_A, MIX_B = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, repr=False)
class SecondMoment(Aggregate):
    """Partial: the counters that are not zero."""

    word: ClassVar[str] = "second_moment"
    exact: ClassVar[bool] = False

    x: str
    width: int = 256
    depth: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.width, int) or not 2 <= self.width <= 1 << 20 or self.width & (self.width - 1):
            raise DefinitionError(f"width of ps.second_moment must be a power of two up to 2^20, and is {self.width!r}")
        if not isinstance(self.depth, int) or not 1 <= self.depth <= 63 or self.depth % 2 == 0:
            raise DefinitionError(f"depth of ps.second_moment must be odd, from 1 to 63, and is {self.depth!r}")

    @property
    def tolerance(self) -> str:
        error = (2 / self.width) ** 0.5
        return f"within ±{2 * error:.1%} of the exact moment in 99 of 100 cases (a row's standard error {error:.1%})"

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        orderable(self, types[0])
        return "double"

    def zero(self) -> Counters:
        return {}

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Counters:
        (value,) = values
        if value is None:
            return {}
        counters, hashed = {}, hash64(value)
        for row in range(self.depth):
            bits = mix(hashed ^ seed(row))
            counters[row * self.width + (bits >> 1) % self.width] = 1 if bits & 1 else -1
        return counters

    def merge(self, a: Counters, b: Counters) -> Counters:
        merged = {cell: count + b.get(cell, 0) for cell, count in a.items()}
        merged |= {cell: count for cell, count in b.items() if cell not in a}
        return {cell: count for cell, count in merged.items() if count}

    def inverse(self, p: Counters) -> Counters:
        return {cell: -count for cell, count in p.items()}

    def present(self, p: Counters) -> float:
        rows = [0] * self.depth
        for cell, count in p.items():
            rows[cell // self.width] += count * count
        return float(median(rows))

    def retractable(self) -> SecondMoment:
        return self


def mix(bits: int) -> int:
    """splitmix64's finaliser, on 64 bits."""
    bits = (bits + GAMMA) & _MASK
    bits = ((bits ^ (bits >> 30)) * MIX_A) & _MASK
    bits = ((bits ^ (bits >> 27)) * MIX_B) & _MASK
    return bits ^ (bits >> 31)


def seed(row: int) -> int:
    """What makes the hash of each row of counters another one."""
    return mix(row + 1)


def hash64(value: Any) -> int:
    """A hash of 64 bits that is the same in every process: numbers by their bits, text and bytes by BLAKE2b."""
    value = canonical(value)
    if isinstance(value, float):
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    if isinstance(value, int):
        return value & _MASK
    text = format(value, "f").encode() if isinstance(value, Decimal) else value
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def second_moment(x: Sql, *, width: int = 256, depth: int = 5, where: Sql | None = None) -> SecondMoment:
    """About the sum of squares of how often each value comes. width = 256: within 18 %."""
    return SecondMoment(sql_text(x), width, depth, where=sql_text(where))
