"""From text to statements.

>>> [type(statement).__name__ for statement in parse("SHOW VIEWS; DROP VIEW IF EXISTS trending")]
['Show', 'Drop']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.cursor import Cursor
from penstock.sql.dialect import Unreadable, tokenize
from penstock.sql.errors import Piece, Source
from penstock.sql.read import definitions, questions, scripts
from penstock.sql.statements import Statement

__all__ = ["parse", "parse_one"]

Placed = dict[str, Any]
_READERS: dict[str, Callable[[Cursor, Placed], Statement]] = {
    "CREATE": definitions.create,
    "DROP": definitions.drop,
    "ACTIVATE": lambda c, placed: definitions.activate(c, placed, True),
    "DEACTIVATE": lambda c, placed: definitions.activate(c, placed, False),
    "SUBSCRIBE": questions.subscribe,
    "SHOW": questions.show,
    "DESCRIBE": questions.describe,
    "DESC": questions.describe,
    "EXPLAIN": lambda c, placed: questions.explain(c, placed, _one),
    "INSERT": scripts.insert,
    "ASSERT": scripts.check,
    "ADVANCE": scripts.advance,
    "START CLOCK AT": scripts.start_clock,
    "RESTART": lambda c, placed: scripts.step("RESTART", placed),
    "BACKLOG": lambda c, placed: scripts.step("BACKLOG", placed),
    "CAUGHT UP": lambda c, placed: scripts.step("CAUGHT UP", placed),
    "LOAD": scripts.load,
    "TEST": scripts.test,
}


def parse(text: str, file: str | None = None) -> tuple[Statement, ...]:
    """The statements of a text, with semicolons between them."""
    source = Source(text, file)
    try:
        tokens = tokenize(text)
    except Unreadable as error:
        raise source.error(error.why, error.at) from None
    return tuple(_statement(source, part, end) for part, end in _parts(tokens, len(text.rstrip())))


def parse_one(text: str, file: str | None = None) -> Statement:
    """The one statement of a text."""
    statements = parse(text, file)
    if len(statements) != 1:
        raise Source(text, file).error(f"one statement is meant, and these are {len(statements)}", 0)
    return statements[0]


def _parts(tokens: list[Token], end: int) -> Iterator[tuple[list[Token], int]]:
    """The tokens of each statement, and where it ends."""
    part: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            part.append(token)
            continue
        if part:
            yield part, token.start
        part = []
    if part:
        yield part, end


def _statement(source: Source, tokens: list[Token], end: int) -> Statement:
    c = Cursor(source, tokens, end)
    try:
        statement = _one(c)
    except RecursionError:
        raise source.error("the statement is nested too deeply", tokens[0].start, hint="name the inner parts") from None
    c.done()
    return statement


def _one(c: Cursor) -> Statement:
    first = c.place
    placed: Placed = {"source": c.source, "whole": Piece(c.piece(c.index, len(c.tokens)).text, first, c.end)}
    if c.sees("SELECT") or c.sees("WITH") or c.after(("VALUES",)) or c.after(("(",)):
        return questions.question(c, placed)
    for word, read in _READERS.items():
        if c.word(*word.split()):
            return read(c, placed)
    raise c.unexpected()
