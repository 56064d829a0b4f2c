"""Reads what scripts are made of: INSERT, ADVANCE, ASSERT, and the steps of a test."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.read.questions import question
from penstock.sql.statements import (
    AdvanceClock,
    AdvanceWatermark,
    Assert,
    Insert,
    Load,
    Question,
    Rows,
    StartClock,
    Statement,
    Step,
    Test,
)


def insert(c: Cursor, placed: dict[str, Any]) -> Statement:
    """INSERT INTO stream [(columns)] [PARTITION n] VALUES (…), … [PARTITION n VALUES …]"""
    c.need("INTO")
    stream = c.name("a stream")
    columns = _columns(c)
    groups: list[Rows] = []
    while not groups or c.sees("PARTITION"):
        partition = c.whole("a partition") if c.word("PARTITION") else 0
        if partition < 0:
            raise c.source.error("a partition has a number from 0 on", c.place)
        c.need("VALUES")
        groups.append(Rows(partition, c.several(lambda: _row(c))))
    return Insert(stream=stream, columns=columns, groups=tuple(groups), **placed)


def _columns(c: Cursor) -> tuple[Piece, ...]:
    if not c.sign("("):
        return ()
    columns = c.several(lambda: c.name("a column"))
    c.need_sign(")")
    return columns


def _row(c: Cursor) -> tuple[Piece, ...]:
    """(value, …)"""
    if not c.sign("("):
        raise c.unexpected()
    values = c.several(lambda: c.expression("a value"))
    c.need_sign(")")
    return values


def check(c: Cursor, placed: dict[str, Any]) -> Statement:
    """ASSERT [PANES | LATE | DUPLICATES | DEAD OF] view [(columns)] CONTAINS | EQUALS (…), …, or IS EMPTY."""
    question = None
    columns: tuple[Piece, ...] = ()
    if c.sign("("):
        question = _question(c, placed)
        what, view = "SELECT", question.whole
    else:
        what = next((w for w in ("PANES", "LATE", "DUPLICATES", "DEAD") if c.word(w, "OF")), "TABLE")
        view = c.name("a view")
        columns = _columns(c)
    rows: tuple[tuple[Piece, ...], ...] = ()
    how = c.one_of("CONTAINS", "EQUALS", "IS EMPTY")
    if how != "IS EMPTY":
        rows = c.several(lambda: _row(c))
    return Assert(
        what=what,  # type: ignore[arg-type]
        view=view,
        columns=columns,
        how="CONTAINS" if how == "CONTAINS" else "EQUALS",
        rows=rows,
        question=question,
        **placed,
    )


def _question(c: Cursor, placed: dict[str, Any]) -> Question:
    """The SELECT up to its closing bracket."""
    start, depth = c.index, 1
    while c.token is not None and depth:
        depth += (c.token.token_type is TokenType.L_PAREN) - (c.token.token_type is TokenType.R_PAREN)
        c.index += 1
    end = c.index - 1
    if depth:
        raise c.source.error("the bracket is left open", c.tokens[start - 1].start)
    inner = Cursor(c.source, c.tokens[start:end], c.tokens[end].start)
    if not inner.sees("SELECT") and not inner.sees("WITH"):
        raise inner.unexpected()
    whole = c.piece(start, end)
    parsed = question(inner, {**placed, "whole": whole})
    if not isinstance(parsed, Question):
        raise c.source.error("only a SELECT over views can be asserted", whole)
    return parsed


def advance(c: Cursor, placed: dict[str, Any]) -> Statement:
    """ADVANCE WATERMARK [OF stream] TO instant | TO END; ADVANCE CLOCK BY duration | TO instant"""
    if c.one_of("WATERMARK", "CLOCK") == "WATERMARK":
        stream = c.name("a stream") if c.word("OF") else None
        c.need("TO")
        to = None if c.word("END") else c.expression("an instant")
        return AdvanceWatermark(stream=stream, to=to, **placed)
    if c.one_of("BY", "TO") == "BY":
        return AdvanceClock(by=c.duration()[0], to=None, **placed)
    return AdvanceClock(by=None, to=c.expression("an instant"), **placed)


def start_clock(c: Cursor, placed: dict[str, Any]) -> Statement:
    return StartClock(at=c.expression("an instant"), **placed)


def step(what: str, placed: dict[str, Any]) -> Statement:
    return Step(what=what, **placed)  # type: ignore[arg-type]


def load(c: Cursor, placed: dict[str, Any]) -> Statement:
    return Load(path=c.string("a file in quotes"), **placed)


def test(c: Cursor, placed: dict[str, Any]) -> Statement:
    return Test(name=c.string("a name in quotes"), **placed)
