"""Casts between types, under Spark's ANSI rules: which there are, and what each makes of a value.

>>> cast_value(" 42 ", "string", "int"), cast_value(19782, "date", "string")
(42, '2024-02-29')
"""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext

from penstock.errors import RowError
from penstock.model.expressions import calendar
from penstock.model.expressions.coerce import Outside, is_decimal
from penstock.model.expressions.tree import Call, Literal, Node
from penstock.model.time import SECOND
from penstock.model.types import INTEGERS, decimal_of, is_float, is_integer, is_numeric

#: What Spark trims before it reads a number, a boolean or a date; doubles keep the delete character.
BLANKS = "".join(map(chr, range(33))) + "\x7f"
DOUBLE_BLANKS = "".join(map(chr, range(33)))
WHOLE = re.compile(r"[+-]?[0-9]+")
FLOATING = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?")
SPECIAL_FLOATS = {
    **{sign + text: float(sign + "inf") for sign in ("", "+", "-") for text in ("inf", "infinity")},
    "nan": math.nan,
    "+nan": math.nan,
}
DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?)?)?"
)
#: Texts that Spark replaces by the time of the query, if they are constants.
_MOVING = ("epoch", "now", "today", "tomorrow", "yesterday")
_MIN_DAY, _MAX_DAY = -(1 << 31), (1 << 31) - 1


def check_cast(node: Node, kind: str) -> None:
    """Refuses what Spark cannot cast, and constants that mean another time in each query."""
    source = node.type
    if isinstance(node, Literal) and source == "string" and kind in ("date", "timestamp"):
        if str(node.value).strip().lower().startswith(_MOVING):
            raise Outside(f"the moving {kind} '{node.value}' is outside the kernel")
        return
    if source != kind and not _in_kernel(source, kind) and not _in_spark(source, kind):
        raise Outside(f"a cast from {source} to {kind} is outside the kernel")


def check_casts(node: Node) -> None:
    """Refuses a tree with a cast that Spark has and the kernel has not."""
    if not isinstance(node, Call):
        return
    for arg in node.args:
        check_casts(arg)
    if node.name == "cast" and not _in_kernel(node.args[0].type, node.type):
        raise Outside(f"a cast from {node.args[0].type} to {node.type} is outside the kernel")


def _in_kernel(source: str, kind: str) -> bool:
    if is_integer(source):
        return is_numeric(kind) or kind in ("string", "boolean", "timestamp")
    if is_float(source):
        return is_integer(kind) or is_float(kind) or kind == "boolean"
    if is_decimal(source):
        return is_numeric(kind) or kind in ("string", "boolean")
    return kind in _TARGETS.get(source, ())


def _in_spark(source: str, kind: str) -> bool:
    """The casts that only questions have: see `penstock.query`."""
    return (
        (is_float(source) and (kind == "string" or is_decimal(kind)))
        or (source in ("string", "boolean") and is_decimal(kind))
        or (source, kind) in (("string", "timestamp"), ("timestamp", "float"), ("binary", "string"))
    )


_TARGETS = {
    "string": (*INTEGERS, "float", "double", "boolean", "date", "binary"),
    "boolean": (*INTEGERS, "float", "double", "string"),
    "date": ("string", "timestamp"),
    "timestamp": (*INTEGERS, "double", "string", "date"),
}


def fold_cast(call: Call) -> Node:
    """A cast of a constant as a constant; one that fails stays, and fails for every row that reaches it."""
    (arg,) = call.args
    assert isinstance(arg, Literal)
    if not _in_kernel(arg.type, call.type) and (arg.type, call.type) != ("string", "timestamp"):
        return call
    try:
        return Literal(cast_value(arg.value, arg.type, call.type), call.type)
    except RowError:
        if call.safe:
            return Literal(None, call.type)
        if arg.type == "string" and call.type == "timestamp":
            raise Outside(f"the timestamp '{arg.value}' is outside the kernel") from None
        return call


def cast_value(value: object, source: str, kind: str) -> object:
    """A value of one type as a value of another. Fails with a RowError."""
    if is_integer(kind):
        return to_integer(value, source, kind)
    if is_float(kind):
        return to_float(value, source, kind)
    if is_decimal(kind):
        assert isinstance(value, (int, Decimal))
        return to_decimal(Decimal(value), source, kind)
    match source, kind:
        case _, "boolean" if is_numeric(source):
            return value != 0
        case "string", "boolean":
            return text_to_boolean(str(value))
        case "string", "date":
            return text_to_day(str(value))
        case "string", "timestamp":
            return _text_to_micros(str(value))
        case "string", "binary":
            return str(value).encode()
        case "boolean", "string":
            return "true" if value else "false"
        case "date", "timestamp":
            return in_timestamp(_int(value) * calendar.DAY, f"cast of {source} to {kind}")
        case "timestamp", "date":
            return _int(value) // calendar.DAY
        case _, "timestamp":
            return max(-(1 << 63), min((1 << 63) - 1, _int(value) * SECOND))
        case "date", "string":
            return calendar.show_date(_int(value))
        case "timestamp", "string":
            return calendar.show_timestamp(_int(value))
        case _, "string":
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
    raise AssertionError(f"{source} to {kind}")


def to_integer(value: object, source: str, kind: str) -> int:
    what = f"cast of {source} to {kind}"
    if source == "string":
        text = str(value).strip(BLANKS)
        if not WHOLE.fullmatch(text):
            raise RowError(f"{what} fails")
        return in_range(int(text), kind, f"{what} fails")
    if source == "timestamp":
        value = _int(value) // SECOND
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RowError(f"{what} overflows")
        if kind == "bigint" and value == 2.0**63:
            return (1 << 63) - 1
    if isinstance(value, Decimal):
        value = value.to_integral_value(ROUND_DOWN)
    assert isinstance(value, (int, float, Decimal))
    return in_range(int(value), kind, f"{what} overflows")


def to_float(value: object, source: str, kind: str) -> float:
    if source == "timestamp":
        return _int(value) / SECOND
    if source != "string":
        assert isinstance(value, (int, float, Decimal))
        return round_float(value, kind)
    text = str(value).strip(DOUBLE_BLANKS)
    if FLOATING.fullmatch(text):
        return round_float(Decimal(text.rstrip("dDfF")) if kind == "float" else float(text.rstrip("dDfF")), kind)
    if text.lower() in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[text.lower()]
    raise RowError(f"cast of string to {kind} fails")


def round_float(value: int | float | Decimal, kind: str) -> float:
    """The nearest value of a float type; beyond the largest it is infinite."""
    return single(value) if kind == "float" else float(value)


def single(value: int | float | Decimal) -> float:
    """The nearest 32-bit float, rounded once."""
    wide = float(value)
    if not math.isfinite(wide):
        return wide
    try:
        near = float(struct.unpack("f", struct.pack("f", wide))[0])
    except OverflowError:
        return math.copysign(math.inf, wide)
    if isinstance(value, float) or Decimal(value) == Decimal(wide):
        return near
    # Rounding to 64 bits first may land on the middle of two 32-bit floats: look at the exact value again.
    bits = struct.unpack("i", struct.pack("f", near))[0]
    around = [near]
    for step in (-1, 1):
        around.append(float(struct.unpack("f", struct.pack("i", bits + step))[0]))
    exact = Decimal(value)
    with localcontext() as context:
        context.prec = 1200
        return min((x for x in around if math.isfinite(x)), key=lambda x: abs(Decimal(x) - exact))


def to_decimal(value: Decimal, source: str, kind: str) -> Decimal:
    """Rounded half up to the scale; fails if the digits before the point do not fit."""
    precision, scale = decimal_of(kind)
    with localcontext() as context:
        context.prec = 100
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        if abs(rounded).scaleb(scale) >= 10**precision:
            raise RowError(f"cast of {source} to {kind} overflows")
        return rounded


def text_to_boolean(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise RowError("cast of string to boolean fails")


def text_to_day(text: str) -> int:
    match = DATE.fullmatch(text.strip(BLANKS))
    if match:
        year, month, day = int(match[1] + match[2]), int(match[3] or 1), int(match[4] or 1)
        if calendar.valid(year, month, day) and _MIN_DAY <= (days := calendar.days(year, month, day)) <= _MAX_DAY:
            return days
    raise RowError("cast of string to date fails")


def _text_to_micros(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if match:
        year, month, day = int(match[1] + match[2]), int(match[3] or 1), int(match[4] or 1)
        hour, minute, second = (int(match[i] or 0) for i in (5, 6, 7))
        zone = match[9] or "Z"
        ahead = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[4:6]))
        if calendar.valid(year, month, day) and hour < 24 and minute < 60 and second < 60 and abs(ahead) <= 18 * 60:
            fraction = int((match[8] or "").ljust(6, "0")[:6])
            clock = (hour * 3600 + (minute - ahead) * 60 + second) * SECOND + fraction
            return in_timestamp(calendar.days(year, month, day) * calendar.DAY + clock, "cast of string to timestamp")
    raise RowError("cast of string to timestamp fails")


def in_range(value: int, kind: str, reason: str) -> int:
    """The value, if the whole type holds it."""
    half = 1 << (INTEGERS[kind] - 1)
    if not -half <= value < half:
        raise RowError(reason)
    return value


def in_timestamp(micros: int, what: str) -> int:
    return in_range(micros, "bigint", f"{what} overflows")


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
