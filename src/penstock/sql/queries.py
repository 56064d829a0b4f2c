"""What a query says: the select list, FROM, WHERE, GROUP BY and EMIT, each with its place in the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.model.time import Duration
from penstock.model.triggers import Trigger
from penstock.model.windows import Window
from penstock.sql.errors import Piece


@dataclass(frozen=True)
class Call:
    """An aggregate as it is called: count(DISTINCT x) FILTER (WHERE y)."""

    name: Piece
    arguments: tuple[Piece, ...]
    named: tuple[tuple[Piece, Piece], ...] = ()
    distinct: bool = False
    star: bool = False
    where: Piece | None = None
    whole: Piece = field(default=Piece("", 0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Generator:
    """explode(expression) AS name: a row for each element. `position` names the element's number."""

    expression: Piece
    names: tuple[Piece, ...]
    outer: bool
    position: Piece | None
    alias: Piece | None
    place: Piece = field(compare=False, repr=False)


@dataclass(frozen=True)
class Item:
    """One entry of a select list. `call` if it is an aggregate; `inner` if it is an expression over aggregates.

    `generator` if it makes rows of an array or a map.
    """

    expression: Piece
    alias: Piece | None = None
    call: Call | None = None
    inner: tuple[Call, ...] = ()
    generator: Generator | None = None


@dataclass(frozen=True)
class Named:
    """A stream or view by its name."""

    name: Piece


@dataclass(frozen=True)
class Nested:
    """(SELECT … FROM …)"""

    query: Query


@dataclass(frozen=True)
class Retimed:
    """RETIME(relation, expression): the same events at another event time."""

    input: Relation
    time: Piece


Relation: TypeAlias = "Named | Nested | Retimed"


@dataclass(frozen=True)
class Windowed:
    """TUMBLE(relation, time, …) and the other windows."""

    window: Window
    input: Relation
    time: Piece | None
    place: Piece = field(compare=False, repr=False)


@dataclass(frozen=True)
class JoinPart:
    """JOIN b [FOR SYSTEM_TIME AS OF time] [AS alias] ON condition, or USING (columns)."""

    how: str
    relation: Relation | Windowed
    alias: Piece | None
    on: Piece | None
    using: tuple[Piece, ...]
    as_of: Piece | None
    place: Piece = field(compare=False, repr=False)


@dataclass(frozen=True)
class Join:
    """FROM a [AS alias] JOIN b … JOIN c …"""

    first: Relation | Windowed
    alias: Piece | None
    parts: tuple[JoinPart, ...]
    place: Piece = field(compare=False, repr=False)


@dataclass(frozen=True)
class Select:
    """SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …]; `items` is None for SELECT *, `group` for GROUP BY ALL.

    `generators` are those after FROM; `alias` is that of what is read, where it is not joined.
    """

    items: tuple[Item, ...] | None
    source: Relation | Windowed | Join
    where: Piece | None
    group: tuple[Piece, ...] | None
    having: Piece | None
    having_calls: tuple[Call, ...]
    place: Piece = field(compare=False, repr=False)
    grouped: Piece | None = field(default=None, compare=False, repr=False)
    generators: tuple[Generator, ...] = ()
    alias: Piece | None = None


@dataclass(frozen=True)
class UnionAll:
    """SELECT … UNION ALL SELECT …"""

    parts: tuple[Query, ...]
    place: Piece = field(compare=False, repr=False)


Query: TypeAlias = "Select | UnionAll"


@dataclass(frozen=True)
class Emit:
    """EMIT … ALLOWED LATENESS …: when a view fires, and how."""

    trigger: Trigger | None = None
    accumulation: str | None = None
    lateness: Duration | None = None
    trigger_place: Piece | None = field(default=None, compare=False, repr=False)
    accumulation_place: Piece | None = field(default=None, compare=False, repr=False)
    lateness_place: Piece | None = field(default=None, compare=False, repr=False)
