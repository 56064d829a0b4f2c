"""Each function of the typed tree as DuckDB's SQL: its own where it equals Spark's, or one of `udfs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.model.expressions.calendar import DAY
from penstock.model.expressions.coerce import Outside, as_decimal, is_decimal
from penstock.model.expressions.tree import Call, Literal
from penstock.model.types import decimal_of, is_float, is_integer
from penstock.query.casts import floor_divide
from penstock.query.types import duckdb_type, is_comparable

if TYPE_CHECKING:
    from penstock.query.render import Renderer

RuleSql: TypeAlias = Callable[..., str]
#: In a text of SQL; the message is ours.
_ZERO = "error('division by zero')"
_EPOCH = "DATE '1970-01-01'"


def _infix(symbol: str) -> RuleSql:
    return lambda _, call, left, right: f"({left} {symbol} {right})"


def _compare(symbol: str) -> RuleSql:
    def sql(_: Renderer, call: Call, left: str, right: str) -> str:
        if not is_comparable(call.args[0].type):
            raise Outside(f"values of type {call.args[0].type} cannot be compared here")
        return f"({left} {symbol} {right})"

    return sql


def _in(_: Renderer, call: Call, value: str, *others: str) -> str:
    if not is_comparable(call.args[0].type):
        raise Outside(f"values of type {call.args[0].type} cannot be compared here")
    return f"({value} IN ({', '.join(others)}))"


def _plain(name: str) -> RuleSql:
    return lambda _, call, *args: f"{name}({', '.join(args)})"


def _typed(name: str) -> RuleSql:
    return lambda _, call, *args: f"CAST({name}({', '.join(args)}) AS {duckdb_type(call.type)})"


def _udf(name: str) -> RuleSql:
    return _plain(f"spark_{name}")


def _arithmetic(name: str, symbol: str) -> RuleSql:
    def sql(_: Renderer, call: Call, left: str, right: str) -> str:
        if is_decimal(call.type):
            return _decimals(name, symbol, call, left, right)
        text = f"({left} {symbol} {right})"
        return _tried(call, text) if call.safe else text

    return sql


def _tried(call: Call, text: str) -> str:
    from penstock.query.render import can_fail  # this module is a part of it

    if any(can_fail(arg) for arg in call.args):
        raise Outside("a try_ function of arguments that can fail is not supported")
    return f"TRY({text})"


def _decimals(name: str, symbol: str, call: Call, left: str, right: str) -> str:
    """DuckDB's own arithmetic where the exact result has at most 38 digits."""
    (p1, s1), (p2, s2) = (as_decimal(arg.type) for arg in call.args)
    precision, scale = decimal_of(call.type)
    target = duckdb_type(call.type)
    if name in ("add", "subtract") and max(p1 - s1, p2 - s2) + max(s1, s2) + 1 <= 38:
        return f"(CAST({left} AS {target}) {symbol} CAST({right} AS {target}))"
    if name == "multiply" and p1 + p2 + 1 <= 38:
        return f"CAST({left} * {right} AS {target})"
    other = f"CAST(-({right}) AS VARCHAR)" if name == "subtract" else f"CAST({right} AS VARCHAR)"
    function = "add" if name == "subtract" else name
    prefix = "spark_try_" if call.safe else "spark_"
    return f"CAST({prefix}decimal_{function}(CAST({left} AS VARCHAR), {other}, {precision}, {scale}) AS {target})"


def _divide(_: Renderer, call: Call, left: str, right: str) -> str:
    if is_decimal(call.type):
        if not call.safe:
            return _decimals("divide", "/", call, left, right)
        return _decimals("divide", "/", call, left, f"CASE WHEN {right} <> 0 THEN {right} END")
    if call.safe:
        return f"({left} / CASE WHEN {right} <> 0 THEN {right} END)"
    divisor = call.args[1]
    if isinstance(divisor, Literal) and divisor.value:
        return f"({left} / {right})"
    return f"({left} / CASE WHEN {right} = 0 AND {left} IS NOT NULL THEN {_ZERO} ELSE {right} END)"


def _int_divide(_: Renderer, call: Call, left: str, right: str) -> str:
    if is_decimal(call.args[0].type):
        return f"spark_decimal_div(CAST({left} AS VARCHAR), CAST({right} AS VARCHAR))"
    return f"({left} // {right})"


def _remainder(_: Renderer, call: Call, left: str, right: str) -> str:
    if is_decimal(call.type):
        if call.safe:
            right = f"CASE WHEN {right} <> 0 THEN {right} END"
        return _decimals("remainder", "%", call, left, right)
    if is_float(call.type):
        if call.safe:
            right = f"CASE WHEN {right} <> 0 THEN {right} END"
        return f"CAST(spark_remainder_double({left}, {right}) AS {duckdb_type(call.type)})"
    return f"({left} % CASE WHEN {right} <> 0 THEN {right} END)" if call.safe else f"({left} % {right})"


def _pmod(_: Renderer, call: Call, left: str, right: str) -> str:
    rest = f"({left} % {right})"
    return f"CASE WHEN {rest} < 0 THEN ({rest} + {right}) % {right} ELSE {rest} END"


def _whole(name: str) -> RuleSql:
    def sql(_: Renderer, call: Call, value: str) -> str:
        if is_decimal(call.type):
            return f"CAST({name}({value}) AS {duckdb_type(call.type)})"
        return f"CASE WHEN isnan({value}) THEN CAST(0 AS BIGINT) ELSE CAST({name}({value}) AS BIGINT) END"

    return sql


def _round(_: Renderer, call: Call, value: str, places: str) -> str:
    count = call.args[1]
    assert isinstance(count, Literal)
    assert isinstance(count.value, int)
    if is_decimal(call.type):
        if count.value >= 0:
            return f"CAST({value} AS {duckdb_type(call.type)})"
        precision, scale = decimal_of(call.type)
        rounded = f"spark_decimal_round(CAST({value} AS VARCHAR), {places}, {precision}, {scale})"
        return f"CAST({rounded} AS {duckdb_type(call.type)})"
    if is_integer(call.type):
        return f"CAST(spark_round_whole(CAST({value} AS BIGINT), {places}) AS {duckdb_type(call.type)})"
    return f"spark_round_double({value}, {places})"


# Text


def _constant(call: Call, at: int) -> object:
    arg = call.args[at]
    return arg.value if isinstance(arg, Literal) else None


def _trim(name: str) -> RuleSql:
    def sql(_: Renderer, call: Call, text: str, chars: str) -> str:
        known = _constant(call, 1)
        own = isinstance(known, str) and known and known.isascii()
        return f"{name}({text}, {chars})" if own else f"spark_{name}({text}, {chars})"

    return sql


def _substring(_: Renderer, call: Call, text: str, start: str, length: str = "2147483647") -> str:
    first = _constant(call, 1)
    if isinstance(first, int) and first > 0 and (len(call.args) == 2 or isinstance(_constant(call, 2), int)):
        if len(call.args) == 2:
            return f"substring({text}, {start})"
        count = _constant(call, 2)
        assert isinstance(count, int)
        return f"substring({text}, {start}, {length})" if count >= 0 else f"substring({text}, 1, 0)"
    return f"spark_substring({text}, {start}, {length})"


def _replace(_: Renderer, call: Call, text: str, old: str, new: str) -> str:
    name = "replace" if _constant(call, 1) else "spark_replace"
    return f"{name}({text}, {old}, {new})"


def _locate(_: Renderer, call: Call, part: str, text: str, start: str) -> str:
    if _constant(call, 0) and _constant(call, 2) == 1:
        return f"CAST(instr({text}, {part}) AS INTEGER)"
    return f"spark_locate({part}, {text}, {start})"


def _hex(_: Renderer, call: Call, value: str) -> str:
    return (
        f"CASE WHEN {value} = 0 THEN '0' ELSE ltrim(upper(printf('%x', {value})), ' ') END"
        if call.args[0].type == "bigint"
        else f"hex({value})"
    )


# Time


def _field(name: str, shift: int = 0) -> RuleSql:
    def sql(_: Renderer, call: Call, value: str) -> str:
        return f"CAST({name}({value}){f' + {shift}' if shift else ''} AS INTEGER)"

    return sql


def _days(value: str) -> str:
    return f"CAST({value} - {_EPOCH} AS INTEGER)"


def _of_days(name: str, *, date: bool = False) -> RuleSql:
    """A function of the days since 1970."""

    def sql(_: Renderer, call: Call, value: str) -> str:
        text = f"spark_{name}({_days(value)})"
        return f"({_EPOCH} + {text})" if date else text

    return sql


def _month_shift(_: Renderer, call: Call, value: str, months: str) -> str:
    return f"CAST({value} + to_months({months}) AS {duckdb_type(call.type)})"


def _time_elapsed(_: Renderer, call: Call, start: str, end: str, unit: str) -> str:
    return f"((epoch_us({end}) - epoch_us({start})) // {unit})"


def _months_elapsed(_: Renderer, call: Call, start: str, end: str, unit: str) -> str:
    return f"spark_months_elapsed(epoch_us({start}), epoch_us({end}), {unit})"


def _second_exact(_: Renderer, call: Call, value: str) -> str:
    return f"CAST(CAST(microsecond({value}) AS DECIMAL(18,6)) * 0.000001 AS DECIMAL(8,6))"


def _trunc(_: Renderer, call: Call, day: str, unit: str) -> str:
    return f"CAST(date_trunc({unit}, {day}) AS DATE)"


# Arrays


def _item(first: int) -> RuleSql:
    """From `first` on; DuckDB counts from 1, and gives a null outside."""

    def sql(_: Renderer, call: Call, values: str, index: str) -> str:
        at = f"({index} + 1)" if first == 0 else index
        inside = (
            f"{index} >= 0 AND {index} < len({values})"
            if first == 0
            else (f"{index} <> 0 AND abs({index}) <= len({values})")
        )
        failure = "NULL" if call.safe else "error('the index is outside of the array')"
        null = f"{values} IS NULL OR {index} IS NULL"
        return f"CASE WHEN {null} THEN NULL WHEN {inside} THEN {values}[{at}] ELSE {failure} END"

    return sql


def _array_contains(_: Renderer, call: Call, values: str, value: str) -> str:
    contains = f"list_contains({values}, {value})"
    nulls = f"len(list_filter({values}, lambda x: x IS NULL)) > 0"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {contains} THEN TRUE WHEN {nulls} THEN NULL ELSE {contains} END"


def _sort_array(_: Renderer, call: Call, values: str, ascending: str) -> str:
    order = "'ASC', 'NULLS FIRST'" if _constant(call, 1) else "'DESC', 'NULLS LAST'"
    return f"list_sort({values}, {order})"


def _array_join(_: Renderer, call: Call, *args: str) -> str:
    return f"spark_array_join{'_nulls' if len(args) == 3 else ''}({', '.join(args)})"


RULES: Final[dict[str, RuleSql]] = {
    # comparison and choice
    "eq": _compare("="), "lt": _compare("<"), "le": _compare("<="), "gt": _compare(">"), "ge": _compare(">="),
    "same": _compare("IS NOT DISTINCT FROM"), "in": _in,
    "not": lambda _, call, value: f"(NOT {value})", "is_null": lambda _, call, value: f"({value} IS NULL)",
    "is_true": lambda _, call, value: f"coalesce({value}, FALSE)",
    "is_false": lambda _, call, value: f"coalesce(NOT {value}, FALSE)",
    "is_nan": lambda _, call, value: f"coalesce(isnan({value}), FALSE)",
    "coalesce": _plain("coalesce"), "greatest": _plain("greatest"), "least": _plain("least"),
    "nanvl": lambda _, call, first, second: f"CASE WHEN isnan({first}) THEN {second} ELSE {first} END",
    # numbers
    "add": _arithmetic("add", "+"), "subtract": _arithmetic("subtract", "-"), "multiply": _arithmetic("multiply", "*"),
    "divide": _divide, "int_divide": _int_divide, "remainder": _remainder, "pmod": _pmod,
    "negative": lambda _, call, value: f"(-{value})", "positive": lambda _, call, value: value, "abs": _plain("abs"),
    "bit_and": _infix("&"), "bit_or": _infix("|"), "bit_xor": _plain("xor"),
    "bit_not": lambda _, call, value: f"(~{value})",
    "bit_count": _typed("bit_count"),
    "ceil": _whole("ceil"), "floor": _whole("floor"), "round": _round,
    **{name: _udf(name) for name in
       ("sqrt", "exp", "ln", "log10", "log2", "log", "pow", "sign", "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "tanh", "degrees", "radians", "rint", "atan2")},
    # text
    "concat": lambda _, call, *args: f"({' || '.join(args)})", "concat_ws": _plain("concat_ws"),
    "trim": _trim("trim"), "ltrim": _trim("ltrim"), "rtrim": _trim("rtrim"), "length": _typed("length"),
    "substring": _substring, "replace": _replace, "locate": _locate,
    "startswith": _plain("starts_with"), "endswith": _plain("suffix"), "contains": _plain("contains"),
    "matches": _plain("regexp_matches"),
    "regexp_replace": lambda _, call, *args: f"regexp_replace({', '.join(args)}, 'g')",
    **{name: _udf(name) for name in
       ("upper", "lower", "left", "right", "lpad", "rpad", "repeat", "reverse", "split_part", "initcap", "translate",
        "substring_index", "split")},
    "ascii": lambda _, call, value: f"CASE WHEN {value} = '' THEN 0 ELSE ascii({value}) END", "hex": _hex,
    "md5": _plain("md5"), "sha1": _plain("sha1"),
    "octet_length": lambda _, call, value, factor: f"CAST(octet_length({value}) * {factor} AS INTEGER)",
    # time
    "date_trunc": _plain("date_trunc"), "trunc": _trunc,
    "year": _field("year"), "month": _field("month"), "day": _field("day"), "quarter": _field("quarter"),
    "dayofyear": _field("dayofyear"), "dayofweek": _field("dayofweek", 1), "weekday": _field("isodow", -1),
    "dayofweek_iso": _field("isodow"), "yearofweek": _field("isoyear"), "weekofyear": _field("week"),
    "hour": _field("hour"), "minute": _field("minute"), "second": _field("second"),
    "second_exact": _second_exact,
    "date_add": _infix("+"), "date_subtract": _infix("-"),
    "date_diff": lambda _, call, end, start: f"CAST({end} - {start} AS INTEGER)",
    "days_between": lambda _, call, end, start: f"(CAST({end} - {start} AS BIGINT) * {DAY})",
    "time_between": lambda _, call, end, start: f"(epoch_us({end}) - epoch_us({start}))",
    "date_shift": lambda _, call, day, length: f"({day} + CAST({length} // {DAY} AS INTEGER))",
    "month_shift": _month_shift, "time_elapsed": _time_elapsed,
    "months_elapsed": _months_elapsed,
    "timestamp_add": lambda _, call, value, length: f"make_timestamp(epoch_us({value}) + {length})",
    "timestamp_subtract": lambda _, call, value, length: f"make_timestamp(epoch_us({value}) - {length})",
    "unix_date": lambda _, call, value: _days(value), "unix_micros": _plain("epoch_us"),
    "unix_millis": lambda _, call, value: floor_divide(f"epoch_us({value})", 1000),
    "unix_seconds": lambda _, call, value: floor_divide(f"epoch_us({value})", 1_000_000),
    "unix_timestamp": lambda _, call, value: f"(epoch_us({value}) // 1000000)",
    "timestamp_micros": _plain("make_timestamp"),
    "timestamp_millis": lambda _, call, value: f"make_timestamp({value} * 1000)",
    "timestamp_seconds": lambda _, call, value: f"make_timestamp({value} * 1000000)",
    "date_format": lambda _, call, value, pattern: f"spark_date_format(epoch_us({value}), {pattern})",
    "last_day": _of_days("last_day", date=True), "dayname": _of_days("dayname"), "monthname": _of_days("monthname"),
    "make_date": lambda _, call, *args: f"({_EPOCH} + spark_make_date({', '.join(args)}))",
    # arrays
    "array": _plain("list_value"), "item": _item(0), "element_at": _item(1), "size": _typed("len"),
    "array_contains": _array_contains, "array_join": _array_join, "sort_array": _sort_array,
    "array_max": _plain("list_max"), "array_min": _plain("list_min"),
}  # fmt: skip
#: Functions that fail on no value.
CANNOT_FAIL: Final = frozenset({
    "eq", "lt", "le", "gt", "ge", "same", "in", "not", "and", "or", "case", "is_null", "is_true", "is_false", "is_nan",
    "coalesce", "greatest", "least", "nanvl", "positive", "bit_and", "bit_or", "bit_xor", "bit_not", "bit_count",
    "sqrt", "exp", "ln", "log10", "log2", "log", "pow", "sign", "sin", "cos", "tan", "asin", "acos", "atan",
    "degrees", "radians", "rint", "atan2", "concat", "concat_ws", "trim", "ltrim", "rtrim", "length", "substring",
    "replace", "locate", "startswith", "endswith", "contains", "matches", "regexp_replace", "upper", "lower", "left",
    "right", "reverse", "initcap", "translate", "substring_index", "split", "ascii", "hex", "md5", "sha1",
    "octet_length", "date_trunc", "trunc", "year", "month", "day", "quarter", "dayofyear", "dayofweek", "weekday",
    "dayofweek_iso", "yearofweek", "weekofyear", "hour", "minute", "second", "second_exact", "date_diff",
    "days_between", "unix_date", "unix_micros", "unix_millis", "unix_seconds", "unix_timestamp", "last_day", "dayname",
    "monthname", "array", "size", "array_contains", "array_join", "sort_array", "array_max", "array_min",
})  # fmt: skip
