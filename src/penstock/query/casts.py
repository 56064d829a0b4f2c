"""Casts under Spark's ANSI rules, as DuckDB's SQL.

>>> cast_sql("double", "int", "x", False), cast_sql("string", "date", "x", True)
('CAST(trunc(x) AS INTEGER)', "(DATE '1970-01-01' + spark_try_text_to_days(x))")
"""

from __future__ import annotations

from penstock.model.expressions.coerce import Outside, is_decimal
from penstock.model.types import INTEGERS, decimal_of, is_float, is_integer, is_numeric
from penstock.query.types import duckdb_type

_SECOND = 1_000_000


def cast_sql(source: str, kind: str, arg: str, safe: bool) -> str:
    """A cast of an expression; if `safe`, its failure is a null."""
    target = duckdb_type(kind)
    word = "TRY_CAST" if safe else "CAST"
    plain = f"{word}({arg} AS {target})"
    if source == "string":
        return _from_text(kind, arg, safe)
    if source == kind:
        return arg
    if kind == "string":
        return _to_text(source, arg)
    if kind == "boolean" and is_numeric(source):
        return f"({arg} <> 0)"
    if is_integer(kind):
        if is_float(source) or is_decimal(source):
            return f"{word}(trunc({arg}) AS {target})"
        if source == "timestamp":
            return f"{word}({floor_divide(f'epoch_us({arg})', _SECOND)} AS {target})"
    elif is_float(kind):
        if source == "timestamp":
            return f"CAST(CAST(epoch_us({arg}) AS DOUBLE) / 1000000.0 AS {target})"
        if source == "boolean":
            return f"CAST(CAST({arg} AS INTEGER) AS {target})"
        if is_decimal(source) and (decimal_of(source)[0] > 15 or kind == "float"):
            return f"spark_text_to_{kind}(CAST({arg} AS VARCHAR))"
        if source == "double" and kind == "float":
            return f"spark_double_to_float({arg})"
    elif is_decimal(kind):
        if is_float(source):
            precision, scale = decimal_of(kind)
            prefix = "spark_try_" if safe else "spark_"
            return f"CAST({prefix}{source}_to_decimal({arg}, {precision}, {scale}) AS {target})"
        if source == "boolean":
            return f"{word}(CAST({arg} AS INTEGER) AS {target})"
    elif kind == "timestamp" and is_integer(source):
        return f"make_timestamp(CAST({arg} AS BIGINT) * {_SECOND})"
    return plain


def _from_text(kind: str, arg: str, safe: bool) -> str:
    prefix, word = ("spark_try_", "TRY_CAST") if safe else ("spark_", "CAST")
    if is_integer(kind):
        return f"{word}({prefix}text_to_bigint({arg}) AS {duckdb_type(kind)})"
    if is_decimal(kind):
        precision, scale = decimal_of(kind)
        return f"CAST({prefix}text_to_decimal({arg}, {precision}, {scale}) AS {duckdb_type(kind)})"
    match kind:
        case "string":
            return arg
        case "binary":
            return f"encode({arg})"
        case "date":
            return f"(DATE '1970-01-01' + {prefix}text_to_days({arg}))"
        case "timestamp":
            return f"make_timestamp({prefix}text_to_micros({arg}))"
        case "float" | "double" | "boolean":
            return f"{prefix}text_to_{kind}({arg})"
    raise Outside(f"a cast from string to {kind} is not supported")


def _to_text(source: str, arg: str) -> str:
    match source:
        case "float" | "double":
            return f"spark_{source}_to_text({arg})"
        case "date":
            return f"spark_days_to_text(CAST({arg} - DATE '1970-01-01' AS INTEGER))"
        case "timestamp":
            return f"spark_micros_to_text(epoch_us({arg}))"
        case "binary":
            return f"decode({arg})"
    return f"CAST({arg} AS VARCHAR)"


def floor_divide(arg: str, by: int) -> str:
    """Whole division toward minus infinity."""
    return f"(({arg} - ((({arg}) % {by} + {by}) % {by})) // {by})"


def cast_fails(source: str, kind: str) -> bool:
    """Whether a cast may fail on some value."""
    if source == "string":
        return kind not in ("string", "binary")
    if kind in ("string", "boolean") or is_float(kind):
        return source == "binary"
    if is_integer(source) and is_integer(kind):
        return INTEGERS[source] > INTEGERS[kind]
    return source not in ("date", "timestamp", "boolean") or is_integer(kind)
