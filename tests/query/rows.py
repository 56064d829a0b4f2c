"""The rows that all questions of the tests are asked of: every type, with the values that engines disagree on."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from math import inf, nan

import pyarrow as pa

from penstock.model.types import Schema

SCHEMAS = {
    "items": Schema.parse(
        "id int, name string, grp string, tiny tinyint, small smallint, qty int, big bigint, ratio float, "
        "score double, price decimal(10,2), wide decimal(38,10), day date, ts timestamp, ok boolean, "
        "tags array<string>, nums array<int>, raw binary"
    ),
    "orders": Schema.parse("id int, item int, qty bigint, at timestamp, note string, total decimal(12,3)"),
    "nothing": Schema.parse("id int, name string, amount decimal(8,2), at timestamp"),
}
ROWS: dict[str, list[tuple[object, ...]]] = {
    "items": [
        (1, "apple", "a", 1, 10, 5, 100, 1.5, 0.5, Decimal("9.50"), Decimal("1.0000000001"), date(2024, 5, 1),
         datetime(2024, 5, 1, 12, 0, 0, 250_000, UTC), True, ["red", "round"], [3, 1, 2], b"\x00\xff"),
        (2, "Größe", "a", 2, 20, None, -7, -0.0, -0.0, Decimal("25.00"), Decimal("-2.5"), date(2024, 2, 29),
         datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC), False, [], [None, 5], b""),
        (3, "naïve", "b", -3, -30, 12, 9_007_199_254_740_993, nan, nan, Decimal("1000.00"), None, date(2024, 1, 31),
         datetime(2024, 1, 31, 0, 0, 0, 1, UTC), None, None, [7], b"abc"),
        (4, None, "b", None, 40, 12, None, 2.25, 1e10, Decimal("-0.05"), Decimal("12345678901234567890.5"), None,
         None, True, ["x", None], [], None),
        (5, "", None, 127, 32767, 2147483647, 9223372036854775807, inf, inf, Decimal("99999999.99"), Decimal("0"),
         date(1999, 12, 31), datetime(1999, 12, 31, 23, 59, 59, 0, UTC), False, ["red"], [1, 1], b"\x01"),
        (6, "zoë 🤦", "c", -128, -32768, -2147483648, -9223372036854775808, -inf, -inf, Decimal("0.01"),
         Decimal("-0.0000000001"), date(1969, 7, 20), datetime(1969, 7, 20, 20, 17, 40, 500_000, UTC), True, ["y", "z"],
         None, b"zz"),
        (7, "Apple", "a", 7, 0, 0, 0, 0.0, 0.0, None, Decimal("3.3333333333"), date(2024, 12, 30),
         datetime(2024, 12, 30, 6, 30, 15, 123_456, UTC), None, ["red", "red"], [0, -1], b"abc"),
        (8, "a_b%c", "c", 0, 5, -4, 42, 0.1, 0.1, Decimal("0.10"), Decimal("0.5"), date(2024, 5, 1),
         datetime(2024, 5, 1, 12, 0, 0, 0, UTC), True, ["b", "a"], [2, 3], b"\xe2\x82\xac"),
        (9, "12", "d", 5, 7, 30, 12, 3.0, 2.5, Decimal("2.50"), Decimal("2.5"), date(2023, 3, 31),
         datetime(2023, 3, 31, 1, 2, 3, 0, UTC), False, ["a", "b"], [9], b"12"),
        (10, " true ", "d", 10, 100, 2, 3, 0.3, 0.7, Decimal("0.30"), Decimal("7"), date(2024, 2, 28),
         datetime(2024, 2, 28, 12, 0, 0, 0, UTC), True, ["c"], [4, 4, 4], b"t"),
    ],
    "orders": [
        (100, 1, 3, datetime(2024, 5, 1, 12, 0, 0, 0, UTC), "first", Decimal("28.500")),
        (101, 1, 2, datetime(2024, 5, 1, 13, 30, 0, 0, UTC), None, Decimal("19.000")),
        (102, 2, 10, datetime(2024, 3, 1, 0, 0, 0, 0, UTC), "Straße", Decimal("250.125")),
        (103, None, 1, datetime(2024, 3, 2, 0, 0, 0, 500_000, UTC), "lost", None),
        (104, 42, 7, None, "unknown item", Decimal("0.005")),
        (105, 8, None, datetime(2024, 5, 2, 12, 0, 0, 0, UTC), "2024-05-01", Decimal("-1.000")),
        (106, 9, 4, datetime(2024, 5, 1, 12, 0, 0, 0, UTC), "7", Decimal("10.000")),
    ],
    "nothing": [],
}  # fmt: skip
_ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}  # fmt: skip


def arrow_type(kind: str) -> pa.DataType:
    """The type of a column as DuckDB sees it: timestamps are in UTC, without a zone."""
    if kind.startswith("array<"):
        return pa.list_(arrow_type(kind[6:-1]))
    if kind.startswith("decimal("):
        return pa.decimal128(*map(int, kind[8:-1].split(",")))
    return _ARROW[kind]


@lru_cache
def arrow(table: str) -> pa.Table:
    """A table of the fixture as Arrow."""
    columns = list(zip(*ROWS[table], strict=True)) or [()] * len(SCHEMAS[table].columns)
    arrays = [
        pa.array([_plain(value) for value in column], arrow_type(kind))
        for column, (_, kind) in zip(columns, SCHEMAS[table], strict=True)
    ]
    return pa.table(arrays, names=list(SCHEMAS[table].names))


def _plain(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
