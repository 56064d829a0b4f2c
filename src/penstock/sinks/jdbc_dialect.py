"""What differs between databases behind JDBC: the driver's class, and the types of columns.

Each dialect here is tried by the tests against the real database. Others work with tables that are there already.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import polars as pl

from penstock.model.time import to_datetime
from penstock.sinks.files import plain


@dataclass(frozen=True)
class Dialect:
    """A database's driver and types. `as_text` are the kinds of values that it has no type for."""

    driver: str | None = None
    types: dict[str, str] = field(default_factory=dict)
    as_text: tuple[type, ...] = ()

    def type_of(self, kind: pl.DataType) -> str | None:
        """The type of a column; none where we do not know this database's types."""
        if not self.types:
            return None
        if isinstance(kind, (pl.List, pl.Struct)):
            return self.types["text"]
        if isinstance(kind, pl.Decimal):
            return self.types["decimal"].format(kind.precision, kind.scale)
        return self.types["timestamp" if isinstance(kind, pl.Datetime) else _KINDS[kind]]

    def value(self, value: Any, kind: pl.DataType) -> Any:
        """A value as it is bound: parts are JSON; years that Python does not know are refused by the driver."""
        if value is None:
            return None
        if isinstance(kind, (pl.List, pl.Struct)):
            return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
        if isinstance(kind, pl.Datetime) and isinstance(value, int):
            value = to_datetime(value)
        return plain(value) if isinstance(value, self.as_text) else value


_KINDS: Final[dict[pl.DataType, str]] = {
    pl.String(): "text", pl.Int8(): "bigint", pl.Int16(): "bigint", pl.Int32(): "bigint", pl.Int64(): "bigint",
    pl.Float32(): "double", pl.Float64(): "double", pl.Boolean(): "boolean", pl.Binary(): "binary", pl.Date(): "date",
}  # fmt: skip
DIALECTS: Final = {
    "postgresql": Dialect("org.postgresql.Driver", {
        "text": "text", "bigint": "bigint", "double": "double precision", "boolean": "boolean", "binary": "bytea",
        "date": "date", "timestamp": "timestamp with time zone", "decimal": "numeric({},{})",
    }),
    "h2": Dialect("org.h2.Driver", {
        "text": "varchar", "bigint": "bigint", "double": "double precision", "boolean": "boolean",
        "binary": "varbinary", "date": "date", "timestamp": "timestamp(6) with time zone", "decimal": "numeric({},{})",
    }),
    "sqlite": Dialect("org.sqlite.JDBC", {
        "text": "text", "bigint": "integer", "double": "real", "boolean": "boolean", "binary": "blob", "date": "text",
        "timestamp": "text", "decimal": "text",
    }, as_text=(datetime, date, Decimal)),
}  # fmt: skip


def dialect_of(url: str) -> Dialect:
    """The dialect of an address 'jdbc:NAME:…'."""
    return DIALECTS.get(url.split(":")[1], Dialect())
