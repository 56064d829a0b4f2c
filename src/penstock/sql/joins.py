"""Streams joined with tables in SQL: what stands after FROM, and names with a qualifier.

In `SELECT c.page, u.tier FROM clicks AS c LEFT JOIN users AS u ON c.user = u.id` names lose their qualifier. Where both
sides have a column, the table's goes by the table's name and its own: users_page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlglot.tokenizer_core import TokenType

from penstock.errors import unknown
from penstock.model.stream import Flow
from penstock.model.table import Table, TableJoin
from penstock.model.table_on import joined
from penstock.sql import queries as sql
from penstock.sql.dialect import tokenize
from penstock.sql.errors import Piece, Source

T = TypeVar("T")
#: What qualified names mean: by qualifier and column, in small letters, the name that the joined rows have.
Known: TypeAlias = Mapping[str, Mapping[str, str]]


class Find(Protocol):
    """How a query finds the stream of a name, and tables."""

    @property
    def tables(self) -> Mapping[str, Table]: ...
    @property
    def streams(self) -> Collection[str]: ...
    def is_event_time(self, flow: Flow, text: str) -> bool: ...
    def join_name(self) -> str: ...
    def __call__(self, named: sql.Named, /) -> Flow: ...


@dataclass(frozen=True)
class Names:
    """What qualified names mean: by qualifier and column, the name that the joined rows have."""

    known: Known

    def plain(self, source: Source, piece: Piece) -> Piece:
        """A piece of text without qualifiers."""
        tokens, text, at = tokenize(piece.text), "", 0
        index = 0
        while index < len(tokens):
            token = tokens[index]
            qualified = (
                index + 2 < len(tokens)
                and tokens[index + 1].token_type is TokenType.DOT
                and token.token_type is not TokenType.STRING
                and token.text.lower() in self.known
            )
            text += piece.text[at : token.start]
            if qualified:
                name = tokens[index + 2].text
                columns = self.known[token.text.lower()]
                if name.lower() not in columns:
                    raise source.placed(unknown("column", f"{token.text}.{name}", columns.values()), piece, {})
                text, at, index = text + columns[name.lower()], tokens[index + 2].end + 1, index + 3
            else:
                text, at, index = text + piece.text[token.start : token.end + 1], token.end + 1, index + 1
        return Piece(text + piece.text[at:], piece.start, piece.end)

    def put_in(self, source: Source, value: T) -> T:
        """The same with all pieces in it plain. An item that is just a column keeps that column's name."""
        if isinstance(value, sql.Item) and value.alias is None:
            qualifier, _, name = value.expression.text.replace(" ", "").replace("`", "").partition(".")
            if qualifier.lower() in self.known and name.isidentifier():
                value = replace(value, alias=replace(value.expression, text=name))
        if isinstance(value, Piece):
            return self.plain(source, value)  # type: ignore[return-value]
        if isinstance(value, tuple):
            return tuple(self.put_in(source, item) for item in value)  # type: ignore[return-value]
        if is_dataclass(value) and not isinstance(value, type):
            values: dict[str, Any] = {field.name: getattr(value, field.name) for field in fields(value)}
            return replace(value, **{name: self.put_in(source, item) for name, item in values.items()})
        return value


def join_table(source: Source, part: sql.JoinPart, flow: Flow, known: Known, find: Find) -> tuple[Flow, dict[str, str]]:
    """A flow joined with a table; and what the table's columns are called after it."""
    table = _table(source, part, find)
    if part.as_of is not None:
        _check_as_of(source, table, Names(known).plain(source, part.as_of), flow, find)
    joined = _joined(source, part, table, flow, known)
    assert isinstance(joined, TableJoin)
    keys = zip(joined.on, table.key, strict=True)
    return joined, {column.lower(): text for text, column in keys} | {own.lower(): name for name, own in joined.joined}


def _joined(source: Source, part: sql.JoinPart, table: Table, flow: Flow, known: Known) -> Flow:
    assert flow.schema is not None
    qualified = {qualifier: {name.lower(): f"{table.name}.{name}" for name in table.schema.names}
            for qualifier in qualifiers(part.relation, part.alias)}  # fmt: skip
    on: Any = None if part.on is None else Names({**known, **qualified}).plain(source, part.on).text
    on = [name.text for name in part.using] if part.using else on
    if on is None:
        raise source.error(
            "a join needs ON", part.place, hint=f"write … ON stream.column = {table.name}.{table.key[0]}"
        )
    with source.at(part.on or part.place):
        return joined(flow, table, on, part.how, f"{table.name}_")


def _table(source: Source, part: sql.JoinPart, find: Find) -> Table:
    if part.how not in ("inner", "left"):
        raise source.error(
            f"a stream and a table are not joined by {part.place.text}", part.place, hint="write JOIN or LEFT JOIN"
        )
    assert isinstance(part.relation, sql.Named)  # anything else is a stream
    name = part.relation.name
    if name.text not in find.tables:
        raise source.placed(unknown("table", name.text, find.tables), name, {})
    return find.tables[name.text]


def _check_as_of(source: Source, table: Table, time: Piece, flow: Flow, find: Find) -> None:
    if table.valid_from is None:
        raise source.error(
            f"the table '{table.name}' has no versions",
            time,
            hint="write WITH (valid_from = 'a timestamp') where it is made",
        )
    if not find.is_event_time(flow, time.text):
        raise source.error(
            f"'{time.text}' is not the event time", time, hint=f"give the stream that time: RETIME(stream, {time.text})"
        )


def qualifiers(of: object, alias: Piece | None) -> list[str]:
    """What may stand before the columns of what is joined."""
    if alias is not None:
        return [alias.text.lower()]
    if isinstance(of, sql.Windowed):
        of = of.input
    while isinstance(of, sql.Retimed):
        of = of.input
    return [of.name.text.lower()] if isinstance(of, sql.Named) else []
