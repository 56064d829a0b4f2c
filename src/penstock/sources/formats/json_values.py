"""One line of JSON as values of columns, by Spark's rules. It is slow, and for lines that are not plain.

>>> from penstock.model.types import Schema
>>> row('{"id": 7, "price": 1.005, "tags": ["a"]}', Schema.parse("id int, price decimal(9,2), tags array<string>"))
{'id': 7, 'price': Decimal('1.01'), 'tags': ['a']}
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, Final

from penstock.errors import RowError
from penstock.model.expressions.casts import cast_value
from penstock.model.types import INTEGERS, Schema, decimal_of
from penstock.sources.base import MALFORMED, REASON

Read = Callable[[str], object]

_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
#: A number up to this is read as seconds since 1970.
_SECONDS: Final = (1 << 63) // 1_000_000 - 1
_SPECIAL: Final = {
    "NaN": math.nan, "Infinity": math.inf, "+INF": math.inf, "-Infinity": -math.inf, "-INF": -math.inf,
}  # fmt: skip
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def row(line: str, schema: Schema) -> dict[str, Any]:
    """One line's values; if it does not fit, only its text, with the reason where there is more to say than that.

    Of several members with one name the last one counts, as in Spark; each must fit.
    """
    try:
        read = {name: reader(kind) for name, kind in schema}
        return {name: read[name](token) for name, token in members(line) if name in read}
    except RowError as error:
        return {MALFORMED: line, REASON: error.message if isinstance(error, _Told) else None}
    except (ValueError, ArithmeticError, RecursionError):
        return {MALFORMED: line}


class _Told(RowError):
    """A reason that says more than that the line does not fit."""


def members(line: str) -> Iterator[tuple[str, str]]:
    """The members of an object, each with the text of its value. Raises where the line is not a JSON object."""
    lone = _SURROGATE.search(line) is not None
    at = _blank(line, 0)
    if line[at : at + 1] != "{":
        raise ValueError("no object")
    at = _blank(line, at + 1)
    if line[at : at + 1] == "}":
        at += 1
    else:
        while True:
            if line[at : at + 1] != '"':
                raise ValueError("no name")
            name, at = _DECODER.raw_decode(line, at)
            at = _blank(line, at)
            if line[at : at + 1] != ":":
                raise ValueError("no value")
            at = _blank(line, at + 1)
            value, end = _DECODER.raw_decode(line, at)
            if lone:
                _check_characters([name, value])
            yield name, line[at:end]
            at = _blank(line, end)
            if line[at : at + 1] not in (",", "}"):
                raise ValueError("no end")
            at += 1
            if line[at - 1] == "}":
                break
            at = _blank(line, at)
    if _blank(line, at) != len(line):
        raise ValueError("more than one value")


def _check_characters(values: list[object]) -> None:
    """Refuses half of a surrogate pair: it is not a character, and no text can hold it."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        character = str(error.object)[error.start]
        raise _Told(f"the line has a lone surrogate, \\u{ord(character):04x}, which is not a character") from None


def _elements(token: str) -> Iterator[str]:
    """The texts of an array's elements. That it is JSON was seen before."""
    at = _blank(token, 1)
    while token[at] != "]":
        _, end = _DECODER.raw_decode(token, at)
        yield token[at:end]
        at = _blank(token, end)
        at = _blank(token, at + 1) if token[at] == "," else at


def _blank(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


# the values of a type


@lru_cache(maxsize=1024)
def reader(kind: str) -> Read:
    """Reads the text of a value for a column of this type; raises where it does not fit."""
    if kind.startswith("array<"):
        inner = reader(kind[6:-1])
        test: Read = lambda token: [inner(part) for part in _elements(token)] if token[0] == "[" else _no("array")  # noqa: E731
    elif kind.startswith("decimal("):
        test = _decimal(*decimal_of(kind))
    elif kind in INTEGERS:
        test = lambda token: _whole(token, kind)  # noqa: E731
    elif kind in ("timestamp", "date"):
        test = lambda token: _time(token, kind)  # noqa: E731
    else:
        test = {"string": _text, "double": _double, "float": _double, "boolean": _boolean, "binary": _bytes}[kind]
    return lambda token: None if token == "null" else test(token)


def _no(what: str) -> object:
    raise ValueError(f"no {what}")


def _text(token: str) -> object:
    return json.loads(token) if token[0] == '"' else token


def _whole(token: str, kind: str) -> object:
    number = int(token)
    return cast_value(number, "bigint" if abs(number) < 1 << 63 else "string", kind)


def _double(token: str) -> object:
    if token[0] == '"':
        text = json.loads(token)
        return _SPECIAL[text] if text in _SPECIAL else _no("number")
    if token in ("NaN", "Infinity", "-Infinity"):
        return _SPECIAL[token]
    return _no("number") if token in ("true", "false") or token[0] in "[{" else float(token)


def _decimal(digits: int, scale: int) -> Read:
    unit, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (digits - scale)

    def read(token: str) -> object:
        text = json.loads(token) if token[0] == '"' else token
        if not _DECIMAL.fullmatch(text):
            return _no("number")
        value = Decimal(text).quantize(unit, ROUND_HALF_UP, Context(prec=10_500))
        return value if abs(value) < limit else _no("number of so few digits")

    return read


def _boolean(token: str) -> object:
    return {"true": True, "false": False}[token] if token in ("true", "false") else _no("boolean")


def _bytes(token: str) -> object:
    return base64.b64decode(json.loads(token), validate=True) if token[0] == '"' else _no("text in base64")


def _time(token: str, kind: str) -> object:
    if token[0] == '"':
        return cast_value(json.loads(token), "string", kind)
    seconds = int(token)
    if kind != "timestamp" or abs(seconds) > _SECONDS:
        raise ValueError("no time")
    return seconds * 1_000_000
