"""Questions in SQL with parameters: `:name` or `?` in the text, each bound as a value and never as text of SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from penstock.errors import PenstockError
from penstock.serve.askers import Question
from penstock.serve.errors import Answered
from penstock.sql import parse_one, question
from penstock.sql.statements import Question as Select
from penstock.store.database import Asked

Value: TypeAlias = str | int | float | bool | None
Parameters: TypeAlias = Mapping[str, Value] | Sequence[Value]
_PLACE: Final = "p__"


def asked(
    sql: str, parameters: Parameters, tables: Mapping[str, Sequence[str]], most: int, database: Asked | None = None
) -> Question:
    """The question that the store is asked, as its database wants it. Whatever is no SELECT over views is refused."""
    try:
        if not isinstance(parameters, Mapping):
            sql, parameters = _named(sql), {f"{_PLACE}{place}": value for place, value in enumerate(parameters)}
        statement = parse_one(sql)
        if isinstance(statement, Select):
            _bind(statement.tree, parameters)
        text, bound = question(statement if isinstance(statement, Select) else sql, tables, **(database or {}))
    except Answered:
        raise
    except PenstockError as error:
        raise Answered(422, error.message, detail=error.detail, hint=error.hint) from None
    except (RecursionError, SqlglotError):
        raise Answered(422, "the question cannot be understood") from None
    return Question(text, bound, most)


def _named(sql: str) -> str:
    """The text with names for the parameters that stand as «?»: a tree does not tell their order."""
    parts, at, place = [], 0, 0
    for token in Dialect.get_or_raise("spark").tokenize(sql):
        if token.token_type == TokenType.PLACEHOLDER:
            parts += [sql[at : token.start], f":{_PLACE}{place}"]
            at, place = token.end + 1, place + 1
    return "".join([*parts, sql[at:]])


def _bind(tree: exp.Expr, parameters: Mapping[str, Value]) -> None:
    """Puts a literal in the place of each parameter: what asks the store binds all literals."""
    used: set[str] = set()
    for node in list(tree.find_all(exp.Placeholder)):
        name = str(node.this or "?")
        if name not in parameters:
            told = name.removeprefix(_PLACE)
            raise Answered(422, f"there is no value for the parameter «{told}»", hint="give it in parameters")
        used.add(name)
        node.replace(_literal(parameters[name], name))
    if set(parameters) - used:
        name = min(set(parameters) - used).removeprefix(_PLACE)
        raise Answered(422, f"the question has no parameter «{name}»")


def _literal(value: Value, name: str) -> exp.Expr:
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Answered(422, f"the value of «{name}» is no number")
    literal = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=literal) if value < 0 else literal
