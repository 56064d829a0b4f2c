"""Reads what a stream or view is made of: SELECT … FROM … WHERE … GROUP BY …, and UNION ALL of them."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from penstock.errors import unknown
from penstock.sql.aggregates import AGGREGATES
from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.queries import (
    Call,
    Generator,
    Item,
    Join,
    JoinPart,
    Named,
    Nested,
    Query,
    Relation,
    Retimed,
    Select,
    UnionAll,
    Windowed,
)
from penstock.sql.read.generators import generator_item, lateral_views, sees_generator, sees_unnest, unnest
from penstock.sql.read.windows import WINDOWS, window

#: What a SELECT that keeps a view or makes a stream cannot have, and where it belongs.
_ELSEWHERE = {
    "ORDER BY": "a view has no order: put it into the SELECT that reads the view",
    "SORT BY": "a view has no order: put it into the SELECT that reads the view",
    "LIMIT": "a view keeps all its rows: put it into the SELECT that reads the view",
    "OFFSET": "a view keeps all its rows: put it into the SELECT that reads the view",
    "WINDOW": "windows of a view are table functions: FROM TUMBLE(…)",
    "UNION": "streams are put together with UNION ALL",
}
_ENDS = {
    TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER,
}  # fmt: skip
_JOINS = {
    "JOIN": "inner", "INNER JOIN": "inner", "LEFT JOIN": "left", "LEFT OUTER JOIN": "left", "RIGHT JOIN": "right",
    "RIGHT OUTER JOIN": "right", "FULL JOIN": "full", "FULL OUTER JOIN": "full", "LEFT SEMI JOIN": "semi",
    "SEMI JOIN": "semi", "LEFT ANTI JOIN": "anti", "ANTI JOIN": "anti", "CROSS JOIN": "cross", ",": "cross",
}  # fmt: skip
#: Deepest nesting of brackets that is accepted.
_DEEPEST = 50
#: Words that may follow a relation, and so cannot be its alias.
_NO_ALIAS = {"EMIT", "ALLOWED", "WHERE", "GROUP", "HAVING", "UNION", "WITH"}


def query(c: Cursor) -> Query:
    """SELECT … [UNION ALL SELECT …]; each may stand in brackets."""
    start = c.index
    if sum(token.token_type is TokenType.L_PAREN for token in c.tokens[max(0, start - _DEEPEST) : start]) == _DEEPEST:
        raise c.source.error("queries are nested too deeply", c.place, hint="name the inner ones as streams")
    parts = [_part(c)]
    while c.word("UNION", "ALL"):
        parts.append(_part(c))
    return parts[0] if len(parts) == 1 else UnionAll(tuple(parts), c.piece(start))


def _part(c: Cursor) -> Query:
    if c.sign("("):
        inner = query(c)
        c.need_sign(")")
        return inner
    return select(c)


def select(c: Cursor) -> Select:
    """SELECT items FROM relation [WHERE …] [GROUP BY …] [HAVING …]"""
    start = c.index
    c.need("SELECT")
    if c.sees("DISTINCT"):
        hint = "write GROUP BY, and count(*) AS n"
        raise c.source.error("a view or stream has no SELECT DISTINCT", c.place, hint=hint)
    items: tuple[Item, ...] | None = None
    if not c.sign("*"):
        items = c.several(lambda: _item(c))
    c.need("FROM")
    source, generators, alias = _source(c)
    where = c.expression("a condition") if c.word("WHERE") else None
    group: tuple[Piece, ...] | None = ()
    grouped = None
    at = c.index
    if c.word("GROUP", "BY"):
        group = None if c.word("ALL") else c.several(c.expression)
        grouped = c.piece(at)
    having: Piece | None = None
    calls: tuple[Call, ...] = ()
    if c.word("HAVING"):
        at = c.index
        having, calls = c.expression("a condition"), _calls(c, at)
    _refuse_elsewhere(c)
    return Select(items, source, where, group, having, calls, c.piece(start), grouped, generators, alias)


def _refuse_elsewhere(c: Cursor) -> None:
    for word, hint in _ELSEWHERE.items():
        if c.after(word.split()) is not None and c.after(("UNION", "ALL")) is None:
            raise c.source.error(f"{word} is not allowed here", c.place, hint=hint)


def _item(c: Cursor) -> Item:
    start = c.index
    if sees_generator(c):
        generator = generator_item(c)
        return Item(generator.expression, generator=generator)
    if _is_call(c, start):
        aggregate = call(c)
        if _ends(c):
            return Item(aggregate.whole, _alias(c), aggregate)
        c.index = start
    expression = c.expression("a column or an aggregate")
    inner = _calls(c, start)
    return Item(expression, _alias(c), None, inner)


def _ends(c: Cursor) -> bool:
    """Whether nothing but an alias can follow in an item."""
    return c.token is None or c.token.token_type in _ENDS


def _alias(c: Cursor) -> Piece | None:
    if c.word("AS"):
        return c.name("a name")
    if c.token is not None and c.token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        return c.name("a name")
    return None


# Aggregates


def _is_call(c: Cursor, index: int) -> bool:
    if index + 1 >= len(c.tokens) or c.tokens[index].token_type is TokenType.STRING:
        return False
    return c.tokens[index].text.lower() in AGGREGATES and c.tokens[index + 1].token_type is TokenType.L_PAREN


def _calls(c: Cursor, start: int) -> tuple[Call, ...]:
    """The aggregates that are called among the tokens from `start` to here."""
    here, calls, index = c.index, [], start
    while index < here:
        if _is_call(c, index):
            c.index = index
            calls.append(call(c))
            index = c.index
        else:
            index += 1
    c.index = here
    return tuple(calls)


def call(c: Cursor) -> Call:
    """name([DISTINCT] argument, …, option => value) [FILTER (WHERE condition)]"""
    start = c.index
    token = c.token
    assert token is not None
    name = Piece(token.text, token.start, token.end + 1)
    c.index += 1
    c.need_sign("(")
    star, distinct = c.sign("*"), False
    arguments: list[Piece] = []
    named: list[tuple[Piece, Piece]] = []
    if not star and not c.sign(")"):
        distinct = c.word("DISTINCT")
        while True:
            if c.index + 1 < len(c.tokens) and c.tokens[c.index + 1].token_type is TokenType.FARROW:
                option = c.name("an option")
                c.need_sign("=>")
                named.append((option, c.expression("a value")))
            else:
                arguments.append(c.expression())
            if not c.sign(","):
                break
        c.need_sign(")")
    elif star:
        c.need_sign(")")
    where = None
    if c.word("FILTER"):
        c.need_sign("(")
        c.need("WHERE")
        where = c.expression("a condition")
        c.need_sign(")")
    return Call(name, tuple(arguments), tuple(named), distinct, star, where, c.piece(start))


# FROM


def _source(c: Cursor) -> tuple[Relation | Windowed | Join, tuple[Generator, ...], Piece | None]:
    """What stands after FROM, and what makes rows of its arrays and maps."""
    relation = _relation_or_window(c)
    alias = _table_alias(c)
    parts: list[JoinPart] = []
    generators: list[Generator] = []
    while True:
        at = c.index
        how = _joins(c)
        if how is None:
            break
        place = c.piece(at)
        if sees_unnest(c):
            generators.append(unnest(c, how, place))
        elif generators:
            raise c.source.error("a join follows UNNEST", place, hint="write the joins first")
        else:
            parts.append(_joined(c, how, place))
    generators += lateral_views(c)
    if parts:
        return Join(relation, alias, tuple(parts), parts[0].place), tuple(generators), None
    if alias is not None and not generators:
        raise c.source.error(f"the alias '{alias.text}' is not needed: a view or stream reads one relation", alias)
    return relation, tuple(generators), alias


def _joined(c: Cursor, how: str, place: Piece) -> JoinPart:
    of = _relation_or_window(c)
    as_of = None
    after = c.after(("FOR", "SYSTEM_TIME", "AS", "OF"))
    if after is not None:
        c.index = after
        as_of = c.expression("the event time")
    alias = _table_alias(c, ("ON", "USING"))
    on: Piece | None = None
    using: tuple[Piece, ...] = ()
    if c.after(("ON",)) is not None:
        c.index += 1
        on = c.expression("a condition")
    elif c.after(("USING",)) is not None:
        c.index += 1
        c.need_sign("(")
        using = c.several(lambda: c.name("a column"))
        c.need_sign(")")
    return JoinPart(how, of, alias, on, using, as_of, place)


def _joins(c: Cursor) -> str | None:
    """Takes what joins two relations, and says how."""
    for join, how in _JOINS.items():
        after = c.after(join.split())
        if after is not None:
            c.index = after
            return how
    return None


def _table_alias(c: Cursor, ends: tuple[str, ...] = ()) -> Piece | None:
    if c.after(("AS",)) is not None:
        c.index += 1
        return c.name("an alias")
    token = c.token
    if token is None or token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        return None
    known = token.text.upper() in _NO_ALIAS or c.index + 1 >= len(c.tokens)
    following = {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "CROSS", "LATERAL", ",", *ends}
    joins = not known and c.tokens[c.index + 1].text.upper() in following
    return c.name("an alias") if joins else None


def _relation_or_window(c: Cursor) -> Relation | Windowed:
    token, following = c.token, c.tokens[c.index + 1 : c.index + 2]
    if token is not None and following and following[0].token_type is TokenType.L_PAREN:
        word = token.text.upper()
        if word in WINDOWS:
            return window(c, lambda: relation(c))
        if word not in ("RETIME", "("):
            error = unknown("window", token.text, [*WINDOWS, "RETIME"])
            raise c.source.placed(error, Piece(token.text, token.start, token.end + 1), {})
    return relation(c)


def relation(c: Cursor) -> Relation:
    """A stream's name, (SELECT …), or RETIME(relation, expression)."""
    if c.sign("("):
        inner = query(c)
        c.need_sign(")")
        return Nested(inner)
    following = c.tokens[c.index + 1 : c.index + 2]
    if following and following[0].token_type is TokenType.L_PAREN and c.word("RETIME"):
        c.need_sign("(")
        of = relation(c)
        c.need_sign(",")
        time = c.expression("the event time")
        c.need_sign(")")
        return Retimed(of, time)
    return Named(c.name("a stream"))
