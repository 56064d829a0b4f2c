"""What the tests of expressions share: edge values, the answers of model and kernel, random expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import polars as pl

from penstock.errors import RowError
from penstock.kernel.expressions import compile, dtype
from penstock.model.expressions import Bound, evaluate
from penstock.model.types import Schema

NAN, INF = math.nan, math.inf
FAILS = "fails"
#: The edge values of each type.
VALUES: dict[str, list[object]] = {
    "tinyint": [None, 0, 1, -1, 127, -128, 7, -7],
    "smallint": [None, 0, 1, -1, 32767, -32768, 300, -7],
    "int": [None, 0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 1000, 46341],
    "bigint": [None, 0, 1, -1, 2**63 - 1, -(2**63), 7, -3, 2**53 + 1, 3037000500],
    "float": [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 0.10000000149011612, 3.4028234663852886e38, 16777216.0],
    "double": [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 0.1, 1.005, 1e308, 5e-324, 2147483647.5, -9.3e18, 2.675,
               1e15, 0.15, 2.5, -0.5, 9007199254740993.0, 127.9, -128.9],
    "decimal(10,2)": [None, *map(Decimal, ("0.00", "1.50", "-1.50", "99999999.99", "-99999999.99", "0.01", "7.00"))],
    "string": [None, "", " ", "a", "ab", "A", "Straße", "e\u0301", "𝔘x𝔘", "a,b,c", "%", "x_y", " 42 ", "-7", "12.5",
               "1e3", "nan", "true", "2024-02-29", "2023-02-29", "İI", "ΑΣ\u0301 Σ", "a\nb", "hello world", "\t9\n",
               "\\", "a\r", "9223372036854775808", "-Infinity", "+10000-1-1 x", "v1.2.3", "1.5d", "\x7f5",
               ".", "1.e2", "-nan", "+NaN", ".d", "infd", "1e5f"],
    "boolean": [None, True, False],
    "date": [None, 0, -1, 19782, 19783, 18627, 18992, -719528, -719529, 2932896, 2932897, 2**31 - 1,
             -(2**31) + 366, 365],
    "timestamp": [None, 0, -1, 1_709_210_096_789_012, 1_609_718_399_999_999, -62_135_596_800_000_000,
                  253_402_300_799_999_999, 2**63 - 1, -(2**63), -2_208_988_800_000_000, 1_000_000, -999_999,
                  31_536_000_000_000],
    "binary": [None, b"", b"a", b"\xff\x00"],
}  # fmt: skip
#: Two columns of each type: one letter, and the same doubled.
NAMES = {
    "tinyint": "y", "smallint": "s", "int": "i", "bigint": "l", "float": "f", "double": "d", "decimal(10,2)": "e",
    "string": "c", "boolean": "o", "date": "t", "timestamp": "a", "binary": "b",
}  # fmt: skip
SCHEMA = Schema(tuple((name * n, kind) for kind, name in NAMES.items() for n in (1, 2)))
Row = dict[str, Any]


def edge_rows() -> list[Row]:
    """Every pair of edge values of each type, the types side by side."""
    total = max(len(values) for values in VALUES.values()) ** 2
    columns: dict[str, list[object]] = {}
    for kind, values in VALUES.items():
        count = len(values)
        columns[NAMES[kind]] = [values[at % count] for at in range(total)]
        columns[NAMES[kind] * 2] = [values[at // count % count] for at in range(total)]
    return [{name: column[at] for name, column in columns.items()} for at in range(total)]


def random_rows(random: Random, count: int) -> list[Row]:
    return [{name: random.choice(VALUES[kind]) for name, kind in SCHEMA} for _ in range(count)]


def to_frame(rows: Sequence[Row], schema: Schema = SCHEMA) -> pl.DataFrame:
    """Rows in the representation of `evaluate` as columns of the kernel."""
    physical = {"date": pl.Int32(), "timestamp": pl.Int64()}
    return pl.DataFrame(
        pl.Series(name, [row[name] for row in rows], dtype=physical.get(kind, dtype(kind))).cast(dtype(kind))
        for name, kind in schema
    )


def model_answer(bound: Bound, row: Row) -> object:
    """The model's value, or FAILS with the reason."""
    try:
        return evaluate(bound, row)
    except RowError as error:
        return (FAILS, error.message)


def kernel_answers(bound: Bound, frame: pl.DataFrame) -> list[object]:
    """The kernel's values, or FAILS with the reasons."""
    compiled = compile(bound)
    error = pl.lit(None, dtype=pl.String) if compiled.error is None else compiled.error
    found = frame.with_columns(value__=compiled.value, error__=error)
    assert found.schema["value__"] == dtype(str(bound.type)), (
        f"{bound.text}: {found.schema['value__']}, not {bound.type}"
    )
    values = found["value__"]
    plain = (values.to_physical() if bound.type in ("date", "timestamp") else values).to_list()
    return [value if reason is None else (FAILS, reason) for value, reason in zip(plain, found["error__"], strict=True)]


def equal(left: object, right: object, *, loosely: bool = False) -> bool:
    """Exact, to the sign of zero; with NaN equal to itself."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if loosely:
            return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-300)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right


#: How an expression of a type may be made of others: {type} is an expression of that type.
_SHAPES: dict[str, list[str]] = {
    "tinyint": [
        "({tinyint} + {tinyint})", "(- {tinyint})", "cast({int} as tinyint)", "abs({tinyint})",
        "pmod({tinyint}, {tinyint})",
    ],
    "smallint": [
        "({smallint} * {tinyint})", "cast({string} as smallint)", "({smallint} % {smallint})",
    ],
    "int": [
        "({int} + {int})", "({int} - {int})", "({int} * {smallint})", "({int} + 1)", "(7 - {int})", "({int} % {int})",
        "pmod({int}, 7)", "length({string})", "locate('a', {string})", "year({date})", "dayofweek({date})",
        "hour({timestamp})", "second({timestamp})", "cast({double} as int)", "try_cast({string} as int)",
        "datediff({date}, {date})", "try_add({int}, {int})", "(- {int})",
    ],
    "bigint": [
        "({bigint} + {int})", "({bigint} - {bigint})", "({bigint} * {bigint})", "({int} div {int})", "({bigint} % 10)",
        "cast({timestamp} as bigint)", "unix_millis({timestamp})", "ceil({double})", "floor({float})",
        "cast({string} as bigint)", "unix_timestamp({timestamp})", "try_multiply({bigint}, {bigint})",
        "({bigint} div -1)", "cast({decimal(10,2)} as bigint)",
    ],
    "float": [
        "({float} + {float})", "({float} * {float})", "cast({double} as float)", "(- {float})",
        "cast({bigint} as float)",
    ],
    "double": [
        "({double} + {double})", "({double} * {float})", "({int} / {int})", "({double} / 3)", "({double} / {double})",
        "round({double}, 2)", "sqrt({double})", "cast({string} as double)", "abs({double})", "({int} - {double})",
        "nanvl({double}, {double})", "try_divide({bigint}, {int})", "sign({double})",
        "cast({decimal(10,2)} as double)", "cast({timestamp} as double)",
    ],
    "decimal(10,2)": [
        "cast({int} as decimal(10,2))", "abs({decimal(10,2)})", "try_cast({bigint} as decimal(10,2))",
        "cast(({decimal(10,2)} + {decimal(10,2)}) as decimal(10,2))", "cast(({decimal(10,2)} * 0.5) as decimal(10,2))",
    ],
    "string": [
        "upper({string})", "lower({string})", "({string} || {string})", "concat_ws('-', {string}, {int}, {string})",
        "trim({string})", "substring({string}, {int}, {int})", "left({string}, 2)", "replace({string}, 'a', 'xy')",
        "lpad({string}, 4, {string})", "split_part({string}, ',', {tinyint})", "reverse({string})",
        "cast({timestamp} as string)", "cast({date} as string)", "cast({bigint} as string)",
        "cast({boolean} as string)", "repeat({string}, 2)", "cast({decimal(10,2)} as string)",
    ],
    "boolean": [
        "({int} > {int})", "({int} >= 1.5)", "({double} = {double})", "({string} < {string})",
        "({boolean} and {boolean})", "({boolean} or {boolean})", "(not {boolean})", "({int} is null)",
        "({boolean} is true)", "({timestamp} < {date})", "({bigint} <=> {int})", "({int} between {int} and {bigint})",
        "({int} in (1, {int}, null))", "({string} in ('a', {string}))", "({string} like 'a%')",
        "({string} rlike '[a-z]$')", "contains({string}, {string})", "({decimal(10,2)} > {int})",
        "({date} is distinct from {date})", "({float} <= {double})", "isnan({double})", "cast({string} as boolean)",
        "({string} = {int})", "startswith({string}, 'a')",
    ],
    "date": [
        "date_add({date}, {int})", "({date} - 1)", "to_date({timestamp})", "trunc({date}, 'month')",
        "cast({string} as date)",
    ],
    "timestamp": [
        "date_trunc('hour', {timestamp})", "date_trunc('month', {timestamp})", "({timestamp} + interval 90 minutes)",
        "({timestamp} - interval 1 day)", "timestamp_seconds({bigint})", "timestamp_millis({int})",
        "cast({date} as timestamp)", "date_trunc('week', {timestamp})", "cast({int} as timestamp)",
    ],
}  # fmt: skip
_ANY = [
    "coalesce({T}, {T})", "if({boolean}, {T}, {T})", "case when {boolean} then {T} when {boolean} then {T} end",
    "nullif({T}, {T})", "nvl2({int}, {T}, {T})", "greatest({T}, {T})", "least({T}, {T})",
]  # fmt: skip
_LITERALS = {
    "tinyint": "1Y; -7Y", "smallint": "300S; 0S", "int": "0; 1; -1; 1000; 2147483647", "bigint": "1L; 3000000000",
    "float": "1.5F",
    "double": "0.5D; -2.5D; 1e3", "decimal(10,2)": "cast(1.25 as decimal(10,2))", "string": "''; 'a'; 'xyz'; '42'",
    "boolean": "true; false", "date": "DATE '2024-02-29'", "timestamp": "TIMESTAMP '2024-02-29 12:34:56.789'",
}  # fmt: skip


def random_expression(random: Random, kind: str, depth: int) -> str:
    """The text of an expression of a type."""
    if depth == 0 or random.random() < 0.1:
        if random.random() < 0.2:
            return random.choice(_LITERALS[kind].split("; "))
        return NAMES[kind] * random.choice((1, 2))
    shape = random.choice(_SHAPES[kind] + _ANY).replace("{T}", "{" + kind + "}")
    for inner in _SHAPES:
        while "{" + inner + "}" in shape:
            shape = shape.replace("{" + inner + "}", random_expression(random, inner, depth - 1), 1)
    return shape


def random_typed_expression(random: Random) -> str:
    return random_expression(random, random.choice(list(_SHAPES)), random.choice((1, 2, 2, 3)))
