"""Reads what makes and removes things: CREATE STREAM, VIEW, TABLE, SINK and ALERT, DROP, ACTIVATE."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.sql.constants import plain
from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.queries import Select
from penstock.sql.read.emit import emit
from penstock.sql.read.queries import query
from penstock.sql.statements import (
    Activate,
    Column,
    CreateAlert,
    CreateSink,
    CreateStream,
    CreateStreamAs,
    CreateTable,
    CreateView,
    Drop,
    Option,
    Origin,
    Statement,
    WatermarkClause,
)

#: Where events come from and where panes go, with whether an address follows.
LOGS = ("FILES", "KAFKA", "GENERATOR", "HTTP", "SOCKET")
TABLES = ("FILES", "DATABASE")
SINKS = ("FILES", "CONSOLE", "KAFKA", "POSTGRES", "JDBC", "HTTP")


def create(c: Cursor, placed: dict[str, Any]) -> Statement:
    replace = c.word("OR", "REPLACE")
    if replace or c.sees("CONTINUOUS", "VIEW") or c.sees("MATERIALIZED", "VIEW"):
        c.one_of("CONTINUOUS VIEW", "MATERIALIZED VIEW")
        return _view(c, replace, placed)
    if c.word("STREAM"):
        return _stream(c, placed)
    if c.word("TABLE"):
        return _table(c, placed)
    if c.word("SINK"):
        return _sink(c, placed)
    if c.word("ALERT"):
        return _alert(c, placed)
    if c.after(("VIEW",)) is not None:
        raise c.source.error(
            "a view of Penstock is kept up to date", c.place, hint="write CREATE CONTINUOUS VIEW name AS SELECT …"
        )
    raise c.unexpected()


def _view(c: Cursor, replace: bool, placed: dict[str, Any]) -> Statement:
    name = c.name("a view's name")
    options = _options(c)
    c.need("AS")
    select = query(c)
    if not isinstance(select, Select):
        raise c.source.error(
            "a view is one SELECT",
            select.place,
            hint="put the streams together first: CREATE STREAM both AS … UNION ALL …",
        )
    return CreateView(name=name, replace=replace, options=options, query=select, emit=emit(c), **placed)


def _stream(c: Cursor, placed: dict[str, Any]) -> Statement:
    name = c.name("a stream's name")
    if c.word("AS"):
        return CreateStreamAs(name=name, query=query(c), **placed)
    timed = _only_time(c)
    if timed is not None or c.after(("WITH",)) is not None:
        options = _options(c)
        c.need("AS")
        return CreateStreamAs(name=name, query=query(c), watermark=timed, options=options, **placed)
    columns, watermark = _columns(c)
    origin = _origin(c, LOGS) if c.word("FROM") else None
    return CreateStream(name=name, columns=columns, watermark=watermark, origin=origin, options=_options(c), **placed)


def _table(c: Cursor, placed: dict[str, Any]) -> Statement:
    name = c.name("a table's name")
    columns: tuple[Column, ...] = ()
    if c.token is not None and c.token.text == "(":
        columns, watermark = _columns(c)
        if watermark is not None:
            raise c.source.error("a table has no watermark", watermark.time, hint="only streams have event time")
    origin = _origin(c, TABLES) if c.word("FROM") else None
    return CreateTable(name=name, columns=columns, origin=origin, options=_options(c), **placed)


def _sink(c: Cursor, placed: dict[str, Any]) -> Statement:
    name = c.name("a sink's name")
    c.need("FROM")
    view = c.name("a view")
    c.need("INTO")
    target = _origin(c, SINKS)
    return CreateSink(name=name, view=view, target=target, options=_options(c), **placed)


def _alert(c: Cursor, placed: dict[str, Any]) -> Statement:
    name = c.name("an alert's name")
    c.need("FROM")
    view = c.name("a view")
    c.need("WHEN")
    when, sink = c.expression("a condition"), None
    if c.word("INTO"):
        target = _origin(c, SINKS)
        sink = CreateSink(name=name, view=view, target=target, options=_options(c), **placed)
    return CreateAlert(name=name, view=view, when=when, sink=sink, **placed)


def drop(c: Cursor, placed: dict[str, Any]) -> Statement:
    if c.word("CONTINUOUS", "VIEW") or c.word("MATERIALIZED", "VIEW"):
        kind = "VIEW"
    else:
        kind = c.one_of("STREAM", "VIEW", "SINK", "TABLE", "ALERT")
    if_exists = c.word("IF")
    if if_exists:
        c.need("EXISTS")
    return Drop(kind=kind, if_exists=if_exists, name=c.name(f"a {kind.lower()}'s name"), **placed)  # type: ignore[arg-type]


def activate(c: Cursor, placed: dict[str, Any], active: bool) -> Statement:
    c.need("VIEW")
    return Activate(name=c.name("a view's name"), active=active, **placed)


# Parts


def _origin(c: Cursor, kinds: tuple[str, ...]) -> Origin:
    start = c.index
    kind = c.one_of(*kinds)
    place = Piece(kind, c.tokens[start].start, c.tokens[start].end + 1)
    if kind == "CONSOLE":
        return Origin(place)
    if kind == "GENERATOR" and c.sign("("):
        columns = c.several(lambda: _generated(c))
        c.need_sign(")")
        return Origin(place, None, columns)
    return Origin(place, c.string("an address in quotes"))


def _generated(c: Cursor) -> tuple[Piece, Piece]:
    name = c.name("a column")
    c.need_sign("=")
    return name, c.expression("how it is made, such as UNIFORM(1, 10)")


def _options(c: Cursor) -> tuple[Option, ...]:
    if not c.word("WITH"):
        return ()
    c.need_sign("(")
    options = c.several(lambda: _option(c))
    c.need_sign(")")
    seen: set[str] = set()
    for option in options:
        if option.name.text.lower() in seen:
            raise c.source.error(f"the option '{option.name.text}' appears twice", option.name)
        seen.add(option.name.text.lower())
    return options


def _option(c: Cursor) -> Option:
    quoted = c.token is not None and c.token.token_type is TokenType.STRING
    name = c.string("an option") if quoted else c.name("an option")
    c.need_sign("=")
    start = c.index
    if c.sees("INTERVAL"):
        c.duration()
        place = c.piece(start)
        text = place.text[len("INTERVAL") :].replace("'", "").strip()
        return Option(name, text, place)
    place = c.expression("a value")
    constant = plain(c.source, place)
    if constant is not None and not isinstance(constant, (str, int, float, bool)):
        raise c.source.error(f"the option '{name.text}' takes a text, a number, true, false or null", place)
    return Option(name, constant, place)


def _only_time(c: Cursor) -> WatermarkClause | None:
    """(WATERMARK FOR …) without columns, as a stream has it that is made from others."""
    start = c.index
    if c.token is not None and c.token.text == "(":
        c.index += 1
        if c.after(("WATERMARK", "FOR")) is not None and c.word("WATERMARK", "FOR"):
            piece = _watermark(c)
            if c.token is not None and c.token.text == ")":
                c.index += 1
                if c.after(("AS",)) is not None or c.after(("WITH",)) is not None:
                    return piece
    c.index = start
    return None


def _columns(c: Cursor) -> tuple[tuple[Column, ...], WatermarkClause | None]:
    c.need_sign("(")
    columns: list[Column] = []
    watermark = None
    while True:
        start = c.index
        if c.sees("WATERMARK", "FOR") and c.word("WATERMARK", "FOR"):
            if watermark is not None:
                raise c.source.error("a stream has one watermark", c.piece(start))
            watermark = _watermark(c)
        else:
            name, kind = c.name("a column"), _type(c)
            metadata = c.string("'key', 'timestamp', 'header:…'") if c.word("METADATA", "FROM") else None
            columns.append(Column(name, kind, metadata))
        if not c.sign(","):
            break
    c.need_sign(")")
    if not columns:
        raise c.source.error("a stream needs columns", c.piece(start), hint="write (name TYPE, …, WATERMARK FOR …)")
    return tuple(columns), watermark


def _type(c: Cursor) -> Piece:
    """The tokens of a type: up to a comma or bracket outside its own brackets."""
    start, depth = c.index, 0
    while c.token is not None and (depth or c.token.text not in (",", ")")):
        text = c.source.text[c.token.start : c.token.end + 1]
        if c.after(("NOT", "NULL")) is not None or c.after(("METADATA", "FROM")) is not None:
            break
        depth += text.count("(") + text.count("<") - text.count(")") - text.count(">")
        c.index += 1
    if c.index == start:
        c.note("a type")
        raise c.unexpected()
    watermark = c.piece(start)
    c.word("NOT", "NULL")
    return watermark


def _watermark(c: Cursor) -> WatermarkClause:
    """WATERMARK FOR time AS time - INTERVAL … | PERCENTILE(time, p) | PUNCTUATED(mark) [IDLE AFTER … | IDLE NEVER]

    What stands after AS may be in brackets.
    """
    time = c.expression("the event time")
    c.need("AS")
    brackets = 0
    while _after(c, time) is None and c.sign("("):
        brackets += 1
    rule: dict[str, Any]
    if c.word("PERCENTILE"):
        c.need_sign("(")
        _same(c, time)
        c.need_sign(",")
        percent = c.number("a percentage")
        rule = {"kind": "percentile", "percent": float(percent.text), "value": percent}
        c.need_sign(")")
    elif c.word("PUNCTUATED"):
        c.need_sign("(")
        mark = c.expression("a timestamp")
        rule = {"kind": "punctuated", "value": mark}
        c.need_sign(")")
    else:
        _same(c, time)
        delay, value = c.duration() if c.sign("-") else (0, time)
        rule = {"kind": "bounded", "delay": delay, "value": value}
    for _ in range(brackets):
        c.need_sign(")")
    idle: Any = "default"
    if c.word("IDLE"):
        idle = None if c.one_of("AFTER", "NEVER") == "NEVER" else c.duration()[0]
    return WatermarkClause(time, **rule, idle=idle)


def _same(c: Cursor, time: Piece) -> None:
    """The event time once more, word for word."""
    c.note(time.text)
    after = _after(c, time)
    if after is None:
        raise c.source.error(
            f"the watermark of {time.text} follows {time.text}", c.place,
            hint=f"write {time.text} - INTERVAL 10 SECONDS, PERCENTILE({time.text}, 99) or PUNCTUATED(a timestamp)",
        )  # fmt: skip
    c.index = after


def _after(c: Cursor, time: Piece) -> int | None:
    """The index after the event time, if that stands here word for word."""
    start = c.index
    length = sum(1 for token in c.tokens if time.start <= token.start < time.end)
    c.index = min(start + length, len(c.tokens))
    same, after, c.index = c.piece(start).text == time.text, c.index, start
    return after if same else None
