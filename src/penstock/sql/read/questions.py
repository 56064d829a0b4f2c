"""Reads what asks: SELECT over views, SUBSCRIBE, SHOW, DESCRIBE, EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.cursor import Cursor
from penstock.sql.dialect import Penstock
from penstock.sql.limits import check_depth, check_tokens
from penstock.sql.statements import (
    Describe,
    Explain,
    History,
    PastTable,
    Question,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
)

#: Words that stand for a table which only Spark reads.
_ASKED = ("HISTORY", "STATE")


def question(c: Cursor, placed: dict[str, Any]) -> Statement:
    """A SELECT. One over views is read with Spark's precedence, and every function keeps its name: `penstock.query`
    says what of it is answered. One over the past is read as SQLGlot reads Spark's SQL: Spark answers it.
    """
    check_tokens(c.tokens, c.source, placed["whole"])
    tokens, tables = _without_history(c)
    c.index = len(c.tokens)
    parser = (Spark() if tables else Penstock()).parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(tokens, c.source.text)
    except ParseError:
        ends = parser._index >= len(tokens)
        at = c.end if ends else tokens[parser._index].start
        where = "" if ends else f" at '{tokens[parser._index].text}'"
        hint = "the text ends too early, or an operand is missing" if ends else "write a SELECT of Spark SQL"
        raise c.source.error(f"cannot read this SELECT{where}", at, hint=hint) from None
    except (RecursionError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise c.source.error("cannot read this SELECT", tokens[0].start, hint="write a SELECT of Spark SQL") from None
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Query):
        raise c.source.error("this is not a SELECT over views", tokens[0].start)
    if tables:
        return History(tables=tables, tree=tree, **placed)
    check_depth(tree, c.source, placed["whole"])
    return Question(tree=tree, **placed)


def _without_history(c: Cursor) -> tuple[list[Token], tuple[PastTable, ...]]:
    """The tokens with a table's name in the place of each HISTORY(…) and STATE(…), and what these ask for."""
    tokens: list[Token] = []
    tables: list[PastTable] = []
    while c.token is not None:
        first = c.token
        following = c.tokens[c.index + 1] if c.index + 1 < len(c.tokens) else None
        word = first.text.upper()
        if word not in _ASKED or following is None or following.token_type is not TokenType.L_PAREN:
            tokens.append(first)
            c.index += 1
            continue
        c.index += 1
        tables.append(_past_table(c, len(tables) + 1, word))
        last = c.tokens[c.index - 1]
        tokens.append(Token(TokenType.VAR, tables[-1].table, first.line, first.col, first.start, last.end))
    return tokens, tuple(tables)


def _past_table(c: Cursor, number: int, word: str) -> PastTable:
    c.need_sign("(")
    name = c.name("a stream or view")
    c.need_sign(")")
    if word == "STATE":
        return PastTable(name=name, by="STATE", at=None, table=f"__history_{number}")
    by: Any = None
    at: int | str | None = None
    if c.word("AS", "OF"):
        by = c.one_of("EPOCH", "COMMIT", "TIMESTAMP")
        at = c.string("a time").text if by == "TIMESTAMP" else c.whole("a number")
    return PastTable(name=name, by=by, at=at, table=f"__history_{number}")


def subscribe(c: Cursor, placed: dict[str, Any]) -> Statement:
    """SUBSCRIBE TO view [WHERE …] [WITH (snapshot, progress)]"""
    c.need("TO")
    view = c.name("a view")
    where = c.expression("a condition") if c.word("WHERE") else None
    words: tuple[str, ...] = ()
    if c.word("WITH"):
        c.need_sign("(")
        words = c.several(lambda: c.one_of("SNAPSHOT", "PROGRESS"))
        c.need_sign(")")
    return Subscribe(view=view, where=where, snapshot="SNAPSHOT" in words, progress="PROGRESS" in words, **placed)


def show(c: Cursor, placed: dict[str, Any]) -> Statement:
    if c.word("CREATE"):
        if not c.word("CONTINUOUS", "VIEW") and not c.word("VIEW"):
            c.word("STREAM")
        return ShowCreate(name=c.name("a stream or view"), **placed)
    return Show(what=c.one_of("STREAMS", "VIEWS", "SINKS", "TABLES", "ALERTS"), **placed)  # type: ignore[arg-type]


def describe(c: Cursor, placed: dict[str, Any]) -> Statement:
    return Describe(name=c.name("a stream, view or sink"), **placed)


def explain(c: Cursor, placed: dict[str, Any], inner: Callable[[Cursor], Statement]) -> Statement:
    """EXPLAIN view, EXPLAIN APP or EXPLAIN statement."""
    if c.sees("CREATE") or c.sees("SELECT") or c.sees("WITH"):
        return Explain(name=None, statement=inner(c), **placed)
    return Explain(name=c.name("a view or APP"), statement=None, **placed)
