"""What a text of SQL says: one frozen value a statement, with the place of everything that may turn out to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

from penstock.model.time import Duration
from penstock.sql.errors import Piece, Source
from penstock.sql.queries import Emit, Query, Select

#: The value of an option: a text, a number, true, false, null; with its place.
OptionValue: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement and where it stands."""

    source: Source = field(compare=False, repr=False)
    whole: Piece = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The statement as it was written."""
        return self.source.text[self.whole.start : self.whole.end]


@dataclass(frozen=True)
class Option:
    """name = value"""

    name: Piece
    value: OptionValue
    place: Piece = field(compare=False, repr=False)


# Definitions


@dataclass(frozen=True)
class Column:
    """A declared column; `metadata` says where else than from the value Kafka takes it."""

    name: Piece
    type: Piece
    metadata: Piece | None = None


@dataclass(frozen=True)
class WatermarkClause:
    """WATERMARK FOR time AS …; `value` is the delay, percentage or mark as it was written.

    `idle` is None for never, and "default" where the statement has none.
    """

    time: Piece
    kind: Literal["bounded", "percentile", "punctuated"]
    value: Piece
    delay: Duration = 0
    percent: float = 0.0
    idle: Duration | Literal["default"] | None = "default"


@dataclass(frozen=True)
class Origin:
    """FROM FILES 'path', INTO CONSOLE: a kind, and an address or the columns of a generator."""

    kind: Piece
    address: Piece | None = None
    columns: tuple[tuple[Piece, Piece], ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateStream(Statement):
    name: Piece
    columns: tuple[Column, ...]
    watermark: WatermarkClause | None
    origin: Origin | None
    options: tuple[Option, ...]


@dataclass(frozen=True, kw_only=True)
class CreateStreamAs(Statement):
    """A stream made from others. Only one that joins two has a watermark and options."""

    name: Piece
    query: Query
    watermark: WatermarkClause | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateView(Statement):
    name: Piece
    replace: bool
    options: tuple[Option, ...]
    query: Select
    emit: Emit


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    name: Piece
    columns: tuple[Column, ...]
    origin: Origin | None
    options: tuple[Option, ...]


@dataclass(frozen=True, kw_only=True)
class CreateSink(Statement):
    name: Piece
    view: Piece
    target: Origin
    options: tuple[Option, ...]


@dataclass(frozen=True, kw_only=True)
class CreateAlert(Statement):
    """CREATE ALERT name FROM view WHEN condition [INTO target [WITH (option = value …)]]."""

    name: Piece
    view: Piece
    when: Piece
    sink: CreateSink | None


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    kind: Literal["STREAM", "VIEW", "SINK", "TABLE", "ALERT"]
    name: Piece
    if_exists: bool


@dataclass(frozen=True, kw_only=True)
class Activate(Statement):
    """ACTIVATE VIEW name, or DEACTIVATE VIEW name."""

    name: Piece
    active: bool


# Questions


@dataclass(frozen=True, kw_only=True)
class Question(Statement):
    """A SELECT over views."""

    tree: exp.Query = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class PastTable:
    """A HISTORY(name) [AS OF EPOCH n | COMMIT n | TIMESTAMP 'time'] in a SELECT, and the table that stands for it.

    Or a STATE(name): what a processor keeps now.
    """

    name: Piece
    by: Literal["EPOCH", "COMMIT", "TIMESTAMP", "STATE"] | None
    at: int | str | None
    table: str


@dataclass(frozen=True, kw_only=True)
class History(Statement):
    """A SELECT over the past: the events of streams, or views as they were."""

    tables: tuple[PastTable, ...]
    tree: exp.Query = field(compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Subscribe(Statement):
    view: Piece
    where: Piece | None
    snapshot: bool
    progress: bool


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    """SHOW STREAMS, VIEWS, SINKS, TABLES or ALERTS."""

    what: Literal["STREAMS", "VIEWS", "SINKS", "TABLES", "ALERTS"]


@dataclass(frozen=True, kw_only=True)
class ShowCreate(Statement):
    """SHOW CREATE name: the statement that makes a stream or view."""

    name: Piece


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    name: Piece


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN view, EXPLAIN APP or EXPLAIN statement. A view whose name is app comes first."""

    name: Piece | None
    statement: Statement | None


# Scripts


@dataclass(frozen=True)
class Rows:
    """Rows of values, each a constant expression, for one partition."""

    partition: int
    rows: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    stream: Piece
    columns: tuple[Piece, ...]
    groups: tuple[Rows, ...]


@dataclass(frozen=True, kw_only=True)
class Assert(Statement):
    """ASSERT [PANES|LATE|DUPLICATES|DEAD OF] view [(columns)] CONTAINS|EQUALS rows, or IS EMPTY."""

    what: Literal["TABLE", "PANES", "LATE", "DUPLICATES", "DEAD", "SELECT"]
    view: Piece
    columns: tuple[Piece, ...]
    how: Literal["CONTAINS", "EQUALS"]
    rows: tuple[tuple[Piece, ...], ...]
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class AdvanceWatermark(Statement):
    """ADVANCE WATERMARK TO an instant, or TO END: the input has ended."""

    stream: Piece | None
    to: Piece | None


@dataclass(frozen=True, kw_only=True)
class AdvanceClock(Statement):
    """ADVANCE CLOCK BY duration, or TO instant."""

    by: Duration | None
    to: Piece | None


@dataclass(frozen=True, kw_only=True)
class StartClock(Statement):
    """START CLOCK AT instant: what the clock shows before the first commit."""

    at: Piece


@dataclass(frozen=True, kw_only=True)
class Step(Statement):
    """RESTART, BACKLOG or CAUGHT UP."""

    what: Literal["RESTART", "BACKLOG", "CAUGHT UP"]


@dataclass(frozen=True, kw_only=True)
class Load(Statement):
    path: Piece


@dataclass(frozen=True, kw_only=True)
class Test(Statement):
    """TEST 'name': what follows starts afresh."""

    __test__ = False

    name: Piece
