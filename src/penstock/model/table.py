"""Tables: reference data that changes slowly, and the step that joins a stream with one. Frozen values, nothing runs.

A table has a key. Each event finds at most one row: the row of its key or, where the table says from when on its rows
are valid, the one that was valid at the event's time.

>>> users = table("users", schema="id bigint, tier string", key="id")
>>> from penstock.model.stream import stream
>>> stream("clicks", schema="user bigint, page string").join(users, on="user = id").schema.ddl()
'user bigint, page string, id bigint, tier string'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, TypeAlias

from penstock.errors import DefinitionError, unknown
from penstock.model.expressions import bind, parse
from penstock.model.naming import valid_name
from penstock.model.stream import Flow, Piped, Step, Stream, Union
from penstock.model.time import Duration, positive, show_duration
from penstock.model.types import Schema, SchemaLike, is_float, is_integer

How: TypeAlias = Literal["inner", "left"]
#: When a table is read again, besides a period: never while the app runs, or when its files are others.
AT_START, ON_CHANGE = "at start", "on change"
_UNKEYED = ("array<", "struct<", "map<")


@dataclass(frozen=True)
class Snapshot:
    """A version of a table: a folder of Parquet that nobody changes, or rows in the table's order of columns.

    One that is `large` does not fit into every task, and also lies there sorted, to be looked things up in.
    """

    version: int
    path: str | None = None
    large: bool = False
    rows: tuple[tuple[object, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True, repr=False)
class Table:
    """Reference data with a key. `source` is where it is read from, `reload` when it is read again.

    `broadcast`: True gives all of it to each process, False has Spark join it, by shuffling. None leaves it to its
    size: each process has a small one, and looks things up in the files of a large one.
    """

    name: str
    schema: Schema
    key: tuple[str, ...]
    source: object | None = None
    reload: str | Duration = AT_START
    valid_from: str | None = None
    valid_to: str | None = None
    broadcast: bool | None = None

    def __post_init__(self) -> None:
        if not valid_name(self.name):
            raise DefinitionError(f"'{self.name}' cannot be a table's name", hint="use letters, digits and underscores")
        for name, kind in self.schema:
            if name.startswith("__"):
                raise DefinitionError(f"'{name}': names that start with two underscores are Penstock's own")
            if kind.startswith(("struct<", "map<")):
                raise DefinitionError(
                    f"the column '{name}' of the table '{self.name}' is {kind}, which a table cannot have",
                    hint="declare it as string: it comes as JSON",
                )
        if not self.key:
            raise DefinitionError(f"the table '{self.name}' has no key", hint="set key='a column'")
        for name in self.key:
            kind = self.schema.type_of(name)
            if is_float(kind) or kind.startswith(_UNKEYED):
                raise DefinitionError(f"the column '{name}' is {kind}, and so cannot be a key of a table")
        for option, column in (("valid_from", self.valid_from), ("valid_to", self.valid_to)):
            if column is not None and self.schema.type_of(column) != "timestamp":
                raise DefinitionError(f"{option}={column!r} is {self.schema.type_of(column)}, and must be timestamp")
        if self.valid_to is not None and self.valid_from is None:
            raise DefinitionError("valid_to needs valid_from", hint="set valid_from='a timestamp'")

    def __repr__(self) -> str:
        key = self.key[0] if len(self.key) == 1 else self.key
        arguments = [repr(self.name), f"schema={self.schema.ddl()!r}", f"key={key!r}"]
        if self.source is not None:
            arguments.insert(1, repr(self.source))
        if self.reload != AT_START:
            arguments.append(f"reload={self.shown_reload!r}")
        for what in ("valid_from", "valid_to", "broadcast"):
            if getattr(self, what) is not None:
                arguments.append(f"{what}={getattr(self, what)!r}")
        return f"ps.table({', '.join(arguments)})"

    @property
    def shown_reload(self) -> str:
        return self.reload if isinstance(self.reload, str) else show_duration(self.reload)


def table(
    name: str,
    source: object | None = None,
    *,
    schema: SchemaLike,
    key: str | Sequence[str],
    reload: str | timedelta = AT_START,
    valid_from: str | None = None,
    valid_to: str | None = None,
    broadcast: bool | None = None,
) -> Table:
    """A table of reference data.

    `key` are the columns that identify a row. `reload` is when it is read again: a period, "on change" of its files, or
    only "at start". With `valid_from`, and `valid_to` where rows end, an event finds the row of its own time.
    """
    columns = Schema.parse(schema)
    keys = (key,) if isinstance(key, str) else tuple(key)
    words = reload.strip().lower() if isinstance(reload, str) else ""
    again: str | Duration = words if words in (AT_START, ON_CHANGE) else ""
    if not again:
        try:
            again = positive(reload.removeprefix("every ") if isinstance(reload, str) else reload, "reload")
        except DefinitionError as error:
            raise DefinitionError(
                f"reload={reload!r} is neither 'at start' nor 'on change' nor a span of time",
                detail=error.message,
                hint="reload='10 minutes'",
            ) from None
    return Table(
        name, columns, tuple(columns.find(one) for one in keys), source, again,
        None if valid_from is None else columns.find(valid_from), None if valid_to is None else columns.find(valid_to),
        broadcast,
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class TableJoin(Step):
    """Each event with the row that it finds in a table. `on` has an expression of the event for each key column.

    `snapshot` is the version of the table, where this step is run.
    """

    table: Table
    on: tuple[str, ...]
    how: How = "inner"
    prefix: str = ""
    snapshot: Snapshot | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise unknown("way to join a table", str(self.how), ["inner", "left"])
        if self.input.schema is None:
            raise DefinitionError(
                f"the columns that would be joined with the table are not known '{self.table.name}'",
                hint="set schema=… in the transform before, or select columns with casts",
            )
        for text, name in zip(self.on, self.table.key, strict=True):
            kind, own_kind = bind(text, self.input.schema).type, self.table.schema.type_of(name)
            if kind is not None and kind != own_kind and not (is_integer(kind) and is_integer(own_kind)):
                raise DefinitionError(
                    f"'{text}' is {kind}, and '{name}' of the table '{self.table.name}' is {own_kind}",
                    hint=f"cast it: CAST({text} AS {own_kind.upper()})",
                )
        if self.table.valid_from is not None and not self.input.has_event_time:
            raise DefinitionError(
                f"the table '{self.table.name}' is as of the event's time, and the stream has none",
                hint="set event_time=… where the stream is made, or .with_time(…)",
            )
        for name, _ in self.joined:
            if name in self.input.schema:
                raise DefinitionError(
                    f"the stream and the table '{self.table.name}' both have a column '{name}'",
                    hint=f"set prefix='{self.table.name}_', or select other names before",
                )

    @property
    def by_spark(self) -> bool:
        """Whether Spark joins it, by shuffling; else the kernel does."""
        return self.table.broadcast is False

    @cached_property
    def joined(self) -> tuple[tuple[str, str], ...]:
        """What comes along of the table: the name here, and there. A key that the event has by that name does not."""
        own = self.input.schema
        assert own is not None
        keys = zip(self.on, self.table.key, strict=True)
        same = {name for text, name in keys if parse(text).text.lower() == name.lower()}
        names = [name for name in self.table.schema.names if name not in same]
        return tuple((f"{self.prefix}{name}" if name in own else name, name) for name in names)

    @property
    def texts(self) -> tuple[str, ...]:
        return self.on

    @property
    def renames(self) -> bool:
        """Whether a column of the table has another name here."""
        return any(name != own for name, own in self.joined)

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        assert self.input.schema is not None
        own = self.table.schema
        return Schema((*self.input.schema, *((name, own.type_of(column)) for name, column in self.joined)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "joined"}

    def __repr__(self) -> str:
        on = " AND ".join(f"{text} = {name}" for text, name in zip(self.on, self.table.key, strict=True))
        arguments = [self.table.name, f"on={on!r}", *([f"how={self.how!r}"] if self.how != "inner" else [])]
        arguments += [f"prefix={self.prefix!r}"] if self.prefix else []
        return f"{self.input!r}.join({', '.join(arguments)})"


def sides(flow: Flow) -> tuple[Table, ...]:
    """The tables that the code of a step gets beside its rows."""
    tables: tuple[Table, ...] = getattr(flow, "sides", ())
    return tables


def tables(flow: Flow) -> dict[str, Table]:
    """The tables that a flow is joined with, or that its code looks rows up in, by name."""
    by_name = {flow.table.name: flow.table} if isinstance(flow, TableJoin) else {}
    by_name |= {one.name: one for one in sides(flow)}
    for part in flow.inputs:
        for name, other in tables(part).items():
            if by_name.setdefault(name, other) != other:
                raise DefinitionError(f"there are two tables '{name}'", hint="give one of them another name")
    return by_name


def with_snapshots(flow: Flow, snapshots: Mapping[str, Snapshot]) -> Flow:
    """The same flow, with the versions of the tables that its joins read."""
    if isinstance(flow, Stream) or not tables(flow):
        return flow
    if isinstance(flow, Union):
        return Union(tuple(with_snapshots(part, snapshots) for part in flow.several))
    input = with_snapshots(flow.inputs[0], snapshots)
    if isinstance(flow, TableJoin):
        return replace(flow, input=input, snapshot=snapshots.get(flow.table.name, Snapshot(0)))
    if isinstance(flow, Step) and sides(flow):
        own = tuple(snapshots.get(side.name, Snapshot(0)) for side in sides(flow))
        return replace(flow, input=input, snapshots=own)  # type: ignore[call-arg]
    if isinstance(flow, Step) and not isinstance(flow, Piped):
        return replace(flow, input=input)
    return input  # a composite is what its steps are
