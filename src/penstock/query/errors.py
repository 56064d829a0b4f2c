"""Errors of questions, in our words: what Spark would refuse too, and what exceeds a limit.

>>> explained(Exception("Conversion Error: Could not convert string 'abc' to INT32\\n\\nLINE 1: …")).message
"cannot cast 'abc' to int"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError


class QueryError(PenstockError):
    """A question that has no answer."""


class TooSlow(QueryError):
    """The question was stopped when its time was over."""


class TooLarge(QueryError):
    """The question needs more memory, or its answer is larger, than it may."""


_TYPES: Final = {
    "INT8": "tinyint", "INT16": "smallint", "INT32": "int", "INT64": "bigint", "INT128": "decimal(38,0)",
    "FLOAT": "float", "DOUBLE": "double", "VARCHAR": "string", "BLOB": "binary", "BOOL": "boolean",
    "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp", "INTEGER": "int", "BIGINT": "bigint",
    "SMALLINT": "smallint", "TINYINT": "tinyint", "HUGEINT": "decimal(38,0)",
}  # fmt: skip


def _type(name: str) -> str:
    return _TYPES.get(name.upper(), name.lower().replace(" ", ""))


#: What DuckDB reports → what is wrong, and what to do.
_KNOWN: Final[tuple[tuple[str, Callable[[re.Match[str]], tuple[str, str | None]]], ...]] = (
    (r"[Dd]ivision by zero", lambda _: ("division by zero", "use nullif(divisor, 0) or try_divide")),
    (
        r"""Could not convert string ['"](.*)['"] to (\w+(?:\(\d+,\s*\d+\))?)""",
        lambda m: (f"cannot cast '{m[1][:60]}' to {_type(m[2])}", "use try_cast for null instead"),
    ),
    (
        r"with value (.+?) can't be cast .*destination type (\S+)",
        lambda m: (f"overflow: {m[1][:60]} is out of the range of {_type(m[2].rstrip('!.'))}", "use a wider type"),
    ),
    (
        r'Casting value "(.*?)" to type (DECIMAL\(\d+,\s*\d+\)) failed',
        lambda m: (f"overflow: {m[1][:60]} is out of the range of {_type(m[2])}", "use a wider type"),
    ),
    (
        r'Could not (?:cast|convert) value "?(.*?)"? to (DECIMAL\(\d+,\s*\d+\))',
        lambda m: (f"overflow: {m[1][:60]} is out of the range of {_type(m[2])}", "use a wider type"),
    ),
    (
        r'invalid (timestamp|date) field format: "(.*?)"',
        lambda m: (f"cannot cast '{m[2][:60]}' to {m[1]}", "use try_cast for null instead"),
    ),
    (
        r"Overflow in (\w+) of (\w+) \((.*)\)",
        lambda m: (f"overflow in {m[1]} of {_type(m[2])}: {m[3][:80]}", "cast to a wider type"),
    ),
    (
        r"More than one row returned by a subquery",
        lambda _: ("a subquery that is used as a value gives more than one row", "aggregate it, or LIMIT 1"),
    ),
    (
        r"out of range|out of bounds|[Oo]verflow",
        lambda _: ("overflow: a value is out of the range of its type", "use a wider type"),
    ),
)


def explained(error: BaseException) -> QueryError:
    """An error of DuckDB in our words: the first line, without its internals."""
    text = str(error)
    udf = re.search(r"Python exception occurred while executing the UDF: \w+: (.*)", text)
    text = udf[1] if udf else text
    for pattern, say in _KNOWN:
        match = re.search(pattern, text)
        if match is not None:
            message, hint = say(match)
            return QueryError(message, hint=hint)
    reason = re.sub(r"^(\w+ )+Error: ", "", text.strip().splitlines()[0] if text.strip() else type(error).__name__)
    return QueryError(f"the query failed: {reason[:300]}")
