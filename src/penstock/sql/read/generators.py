"""Reads what makes rows of arrays and maps: LATERAL VIEW explode(…), CROSS JOIN UNNEST(…), and SELECT explode(…)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import TokenType

from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.queries import Generator

_FUNCTIONS = ("explode", "explode_outer", "posexplode", "posexplode_outer")


def lateral_views(c: Cursor) -> tuple[Generator, ...]:
    """LATERAL VIEW [OUTER] explode(expression) [alias] AS name, …"""
    generators = []
    while c.word("LATERAL", "VIEW"):
        start = c.index
        outer = c.word("OUTER")
        function, expression = _call(c)
        alias = None if c.sees("AS") else c.name("an alias")
        c.need("AS")
        names = c.several(lambda: c.name("a name"))
        generators.append(_generator(c, function, expression, names, outer, alias, c.piece(start)))
    return tuple(generators)


def sees_unnest(c: Cursor) -> bool:
    """Whether UNNEST(…) follows."""
    following = c.tokens[c.index + 1 : c.index + 2]
    return c.after(("UNNEST",)) is not None and bool(following) and following[0].token_type is TokenType.L_PAREN


def unnest(c: Cursor, how: str, place: Piece) -> Generator:
    """UNNEST(expression) [AS] alias(name, …), after CROSS JOIN, or after LEFT JOIN and before ON TRUE."""
    start = c.index
    c.need("UNNEST")
    expression = _argument(c)
    c.word("AS")
    alias = c.name("an alias")
    c.need_sign("(")
    names = c.several(lambda: c.name("a name"))
    c.need_sign(")")
    if how == "left":
        c.need("ON")
        c.need("TRUE")
    elif how != "cross":
        raise c.source.error(
            f"UNNEST is not allowed after {place.text}",
            place,
            hint="write CROSS JOIN UNNEST(…)",
        )
    return Generator(expression, tuple(names), how == "left", None, alias, c.piece(start))


def sees_generator(c: Cursor) -> bool:
    """Whether explode(…) follows."""
    following = c.tokens[c.index + 1 : c.index + 2]
    named = c.token is not None and c.token.text.lower() in _FUNCTIONS and c.token.token_type is not TokenType.STRING
    return named and bool(following) and following[0].token_type is TokenType.L_PAREN


def generator_item(c: Cursor) -> Generator:
    """explode(expression) AS name; AS (key, value) of a map."""
    start = c.index
    function, expression = _call(c)
    c.need("AS")
    if c.sign("("):
        names = c.several(lambda: c.name("a name"))
        c.need_sign(")")
    else:
        names = (c.name("a name"),)
    return _generator(c, function, expression, names, False, None, c.piece(start))


def _call(c: Cursor) -> tuple[str, Piece]:
    token = c.token
    for function in _FUNCTIONS:
        c.note(f"{function}(…)")
    if token is None or token.text.lower() not in _FUNCTIONS:
        raise c.unexpected()
    c.index += 1
    return token.text.lower(), _argument(c)


def _argument(c: Cursor) -> Piece:
    c.need_sign("(")
    expression = c.expression("an array or a map")
    c.need_sign(")")
    return expression


def _generator(
    c: Cursor, function: str, expression: Piece, names: Sequence[Piece], outer: bool, alias: Piece | None, place: Piece
) -> Generator:
    position = None
    if function.startswith("pos"):
        position, *names = names
        if not names:
            raise c.source.error(f"{function} gives a position and an element", place, hint="write AS place, element")
    return Generator(expression, tuple(names), outer or function.endswith("_outer"), position, alias, place)
