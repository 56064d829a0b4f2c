"""How a scan reads a column: what it selects of the table, and how that becomes a column of the view's type, exactly.

>>> column = Text("decimal(20,1)", '"total"')
>>> column.decode([pa.array(["12345678901234567.5", None])], pa.decimal128(20, 1)).to_pylist()
[Decimal('12345678901234567.5'), None]
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.time import micros_of
from penstock.model.types import INTEGERS, decimal_of
from penstock.store.present import EXACT_DIGITS

_DAY: Final = 86_400_000_000
_ORDINARY: Final = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$"


@dataclass(frozen=True)
class Whole:
    """Whole numbers: also instants in microseconds, dates in days, booleans as 0 and 1."""

    kind: str
    sql: str
    like: ClassVar[tuple[str, ...]] = ("0",)

    @property
    def selects(self) -> tuple[str, ...]:
        return (self.sql,)

    def decode(self, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        if pa.types.is_date32(kind):
            return parts[0].cast(pa.int32()).cast(kind)
        return parts[0].cast(kind)


@dataclass(frozen=True)
class Plain:
    """Text and bytes as they are."""

    kind: str
    sql: str

    @property
    def like(self) -> tuple[str, ...]:
        return ("x''",) if self.kind == "binary" else ("''",)

    @property
    def selects(self) -> tuple[str, ...]:
        return (self.sql,)

    def decode(self, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        return parts[0].cast(kind)


@dataclass(frozen=True)
class Real:
    """Floats, and decimals that a double holds. What SQLite has no number for is text: NaN, and zero with a sign."""

    kind: str
    sql: str
    like: ClassVar[tuple[str, ...]] = ("0.0", "''")

    @property
    def selects(self) -> tuple[str, ...]:
        text = f"typeof({self.sql}) = 'text'"
        return (f"CASE WHEN {text} THEN NULL ELSE {self.sql} END", f"CASE WHEN {text} THEN {self.sql} END")

    def decode(self, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        numbers, texts = parts
        if texts.null_count < len(texts):
            numbers = pc.if_else(texts.is_valid(), texts.cast(pa.float64()), numbers)
        return real(numbers, kind)


@dataclass(frozen=True)
class Double(Real):
    """The same where the database has all floats, as PostgreSQL does."""

    like: ClassVar[tuple[str, ...]] = ("0.0",)

    @property
    def selects(self) -> tuple[str, ...]:
        return (self.sql,)

    def decode(self, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        return real(parts[0], kind)


@dataclass(frozen=True)
class Text:
    """What the store shows as text: times, decimals of many digits, and lists as JSON."""

    kind: str
    sql: str
    like: ClassVar[tuple[str, ...]] = ("''",)

    @property
    def selects(self) -> tuple[str, ...]:
        return (self.sql,)

    def decode(self, parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
        (texts,) = parts
        if pa.types.is_timestamp(kind):
            return _times(texts, _ORDINARY, " ").cast(kind)
        if pa.types.is_date32(kind):
            return pc.divide(_times(texts, r"^\d{4}-\d\d-\d\d$", None), _DAY).cast(pa.int32()).cast(kind)
        if pa.types.is_decimal(kind):
            return _decimals(pl.Series(texts).str.replace(".", "", literal=True).cast(pl.Int128), kind)
        turn = _turn(kind)
        values = (json.loads(text, parse_float=Decimal) if text is not None else None for text in texts.to_pylist())
        return pa.array([None if value is None else turn(value) for value in values], kind)


Column = Whole | Plain | Real | Text


def column_of(kind: str, sql: str, state: str | None, finds_nan: bool) -> Column:
    """How a column of a view is read that is shown as `sql`; `state` is where it is kept exactly, if it is."""
    if kind in INTEGERS or kind == "boolean":
        return Whole(kind, sql)
    if kind in ("string", "binary"):
        return Plain(kind, sql)
    if kind in ("timestamp", "date") and state is not None:
        return Whole(kind, state)
    if kind in ("float", "double") or (kind.startswith("decimal(") and decimal_of(kind)[0] <= EXACT_DIGITS):
        return Double(kind, sql) if finds_nan else Real(kind, sql)
    return Text(kind, sql)


def real(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Doubles as floats, or as the decimals that they stand for."""
    if not pa.types.is_decimal(kind):
        return numbers.cast(kind, safe=False)
    return _decimals((pl.Series(numbers.cast(pa.float64())) * 10**kind.scale).round().cast(pl.Int128), kind)


def _decimals(digits: pl.Series, kind: pa.DataType) -> pa.Array:
    wide = digits.reinterpret(dtype=pl.Decimal(38, kind.scale))
    return _array(wide.to_arrow()).cast(kind)


def _times(texts: pa.Array, ordinary: str, time: str | None) -> pa.Array:
    """Instants in microseconds. Polars parses those of ordinary years."""
    series = pl.Series(texts, dtype=pl.String)
    usual = series.str.contains(ordinary)
    form = "%Y-%m-%d" if time is None else "%Y-%m-%d %H:%M:%S%.f"
    parsed = series.set(~usual, None).str.to_datetime(form, time_unit="us", strict=False).to_physical()
    odd = (parsed.is_null() & series.is_not_null()).arg_true()
    if len(odd):
        parsed = parsed.scatter(odd, [micros_of(text) for text in series.gather(odd)])
    return _array(parsed.to_arrow())


def _array(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _turn(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value of JSON one that Arrow takes for this type; it is never called for null."""
    if pa.types.is_list(kind):
        inner = _turn(kind.value_type)
        return lambda values: [None if value is None else inner(value) for value in values]
    if pa.types.is_struct(kind):
        turns = {field.name: _turn(field.type) for field in kind}
        return lambda row: {name: None if row[name] is None else turn(row[name]) for name, turn in turns.items()}
    if pa.types.is_timestamp(kind):
        return micros_of
    if pa.types.is_date32(kind):
        return lambda text: micros_of(text) // _DAY
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_binary(kind):
        return b64decode
    return (lambda value: bool(value)) if pa.types.is_boolean(kind) else lambda value: value
