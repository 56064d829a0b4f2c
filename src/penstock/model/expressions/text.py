"""What the functions of text make of their values. A character is a code point, as in Spark.

>>> from penstock.model.expressions.tree import Call
>>> TEXT["substring"](Call("substring", (), "string"), "hello", -3, 2)
'll'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from penstock.errors import RowError
from penstock.model.expressions.patterns import python_regex
from penstock.model.expressions.tree import Call


def _substring(_: Call, text: str, start: int, length: int = (1 << 31) - 1) -> str:
    """From 1 on; a negative start counts from the end, and may lie before the beginning."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = min(first + length, len(text)) if length >= 0 else first
    return text[max(first, 0) : max(last, 0)]


def _locate(_: Call, part: str, text: str, start: int) -> int:
    if start < 1:
        return 0
    return 1 if not part else text.find(part, start - 1) + 1


def _pad(before: bool) -> Callable[..., str]:
    def value(_: Call, text: str, width: int, fill: str) -> str:
        missing = width - len(text)
        if missing <= 0:
            return text[: max(width, 0)]
        padding = (fill * (missing // len(fill) + 1))[:missing] if fill else ""
        return padding + text if before else text + padding

    return value


def _split_part(_: Call, text: str, separator: str, index: int) -> str:
    if index == 0:
        raise RowError("split_part at index 0")
    parts = text.split(separator) if separator else [text]
    at = index - 1 if index > 0 else len(parts) + index
    return parts[at] if 0 <= at < len(parts) else ""


def _concat(_: Call, *parts: str | None) -> str | None:
    return None if None in parts else "".join(part for part in parts if part is not None)


def _concat_ws(_: Call, separator: str | None, *parts: str | None) -> str | None:
    return None if separator is None else separator.join(part for part in parts if part is not None)


@lru_cache(maxsize=1024)
def compiled_regex(regex: str) -> re.Pattern[str]:
    """The common regular expression of `patterns`, for Python."""
    return re.compile(python_regex(regex))


TEXT: Final[dict[str, Callable[..., Any]]] = {
    "concat": _concat, "concat_ws": _concat_ws,
    "upper": lambda _, text: text.upper(), "lower": lambda _, text: text.lower(),
    "trim": lambda _, text, chars: text.strip(chars) if chars else text,
    "ltrim": lambda _, text, chars: text.lstrip(chars) if chars else text,
    "rtrim": lambda _, text, chars: text.rstrip(chars) if chars else text,
    "length": lambda _, text: len(text), "substring": _substring,
    "left": lambda _, text, count: text[: max(count, 0)],
    "right": lambda _, text, count: text[max(len(text) - count, 0) :] if count > 0 else "",
    "replace": lambda _, text, old, new: text.replace(old, new) if old else text,
    "startswith": lambda _, text, part: text.startswith(part), "endswith": lambda _, text, part: text.endswith(part),
    "contains": lambda _, text, part: part in text, "locate": _locate,
    "lpad": _pad(before=True), "rpad": _pad(before=False),
    "repeat": lambda _, text, count: text * count, "reverse": lambda _, text: text[::-1], "split_part": _split_part,
    "matches": lambda _, text, regex: compiled_regex(regex).search(text) is not None,
}  # fmt: skip
