"""Parameters of a question: `:name` or `?` in the text become literals, each of them one value and never more.

>>> print(bound("SELECT n FROM v WHERE k = :key", {"key": "it's"}))
SELECT n FROM v WHERE k = 'it\\'s'
>>> bound("SELECT * FROM v WHERE n > ?", [-1.5])
'SELECT * FROM v WHERE n > (-1.5)'
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from penstock.query.errors import QueryError
from penstock.sql.dialect import tokenize

Value: TypeAlias = str | int | float | bool | None
Parameters: TypeAlias = Mapping[str, Value] | Sequence[Value]


def bound(sql: str, parameters: Parameters) -> str:
    """The text with literals in the place of its parameters."""
    if not parameters and ":" not in sql and "?" not in sql:
        return sql
    named = parameters if isinstance(parameters, Mapping) else {}
    listed = [] if isinstance(parameters, Mapping) else list(parameters)
    parts, at, used = [], 0, set[str]()
    tokens = tokenize(sql)
    for number, token in enumerate(tokens):
        if token.start < at:
            continue
        if token.token_type == TokenType.PLACEHOLDER or token.text == "?::":
            name, end = str(len(used)), token.start
            there = len(used) < len(listed)
            value = listed[len(used)] if there else None
        elif token.token_type == TokenType.COLON and number + 1 < len(tokens):
            following = tokens[number + 1]
            if following.start != token.end + 1 or not (following.text[:1].isalpha() or following.text[:1] == "_"):
                continue
            name, end = following.text, following.end
            there, value = name in named, named.get(name)
        else:
            continue
        if not there:
            raise QueryError(f"there is no value for the parameter '{name}'", hint="give it in parameters")
        parts += [sql[at : token.start], literal(value, name)]
        at = end + 1
        used.add(name)
    known = set(named) or {str(number) for number in range(len(listed))}
    if known - used:
        raise QueryError(f"the query has no parameter '{min(known - used)}'")
    return "".join([*parts, sql[at:]])


def literal(value: Value, name: str) -> str:
    """A value as Spark's SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        tokens = tokenize(text)
        if len(tokens) != 1 or tokens[0].text != value:
            raise QueryError(f"the value of '{name}' cannot be written as a text")
        return text
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(f"the value of '{name}' is not a number")
    text = repr(value)
    return f"({text})" if value < 0 else text
