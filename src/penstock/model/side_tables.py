"""Tables beside the events of a processor: rows that its code looks up, and state that keys begin with.

    app.process("orders", orders, Orders, by="user", tables=[prices], initial=balances)

Code reads the version that is in force in the commit: `self.table("prices").get(event.item)`. With `initial`, a key
that comes for the first time begins with the row that it has there: each column with the name of a state is its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.column_values import fit_column
from penstock.model.kinds import kind_of
from penstock.model.processing import states_of
from penstock.model.processor import Processor
from penstock.model.row_type import row_type
from penstock.model.state import ListOf, State, Value
from penstock.model.table import Table
from penstock.model.table_rows import check_rows
from penstock.model.time import Instant
from penstock.model.types import Schema, is_integer

#: Rows for keys to begin with: a table of the app, or rows that are known when the app is defined.
Rows: TypeAlias = Table | Sequence[Mapping[str, Any]]


class Lookup(Protocol):
    """A version of a table. Values are those of the model."""

    def row(self, key: tuple[object, ...], at: Instant) -> dict[str, Any] | None: ...
    def rows(self) -> Iterator[dict[str, Any]]: ...


class SideTable:
    """A version of a table, as user code sees it."""

    def __init__(self, table: Table, lookup: Lookup, at: Instant = 0) -> None:
        self._table, self._lookup, self._at = table, lookup, at
        self._kinds = [kind_of(kind) for _, kind in table.schema]
        self._key = [kind_of(table.schema.type_of(name)) for name in table.key]
        self._make = row_type("Row", table.schema.names)

    def at(self, at: Instant) -> SideTable:
        """The same, as of an instant where rows follow each other in time."""
        return self if self._table.valid_from is None else SideTable(self._table, self._lookup, at)

    def get(self, *key: Any) -> Any:
        """The row of a key, or None. Rows that follow each other in time: the one of the event's time."""
        if len(key) != len(self._key):
            raise RowError(f"the key of the table '{self._table.name}' is {', '.join(self._table.key)}, not {key!r}")
        row = self._lookup.row(tuple(kind.taken(one) for kind, one in zip(self._key, key, strict=True)), self._at)
        return None if row is None else self._shown(row)

    def rows(self) -> list[Any]:
        """All rows."""
        return [self._shown(row) for row in self._lookup.rows()]

    def _shown(self, row: Mapping[str, Any]) -> Any:
        return self._make._make([kind.given(value) for kind, value in zip(self._kinds, row.values(), strict=True)])


@dataclass(frozen=True)
class Initial:
    """What keys begin with: the row that a key has in a table. `rows` are there where the definition has them."""

    table: Table
    rows: tuple[tuple[object, ...], ...] | None = field(default=None, repr=False)

    def put(self, processor: Processor, table: SideTable, key: Any, states: Iterable[str]) -> None:
        """Sets the states of a key that comes for the first time. `processor` is at work on its cell."""
        row = table.get(*(key if isinstance(key, tuple) else (key,)))
        for name in states if row is not None else ():
            if name in self.table.schema and row[name] is not None:
                setattr(processor, name, row[name])


def initial_of(rows: Rows, processor: type[Processor], key: Schema) -> Initial:
    """What keys begin with, from what the user says."""
    states = states_of(processor)
    if isinstance(rows, Table):
        _check_table(rows, states, key)
        return Initial(rows)
    types = {name: _column(state) for name, state in states.items()}
    columns = Schema((*key, *((name, kind) for name, kind in types.items() if kind is not None and name not in key)))
    table = Table("initial", columns, key.names)
    fitted = []
    for row in rows:
        for name in row:
            if name not in columns:
                raise unknown("key or state", name, columns.names)
        fitted.append(tuple(fit_column(name, row.get(name), kind) for name, kind in columns))
    check_rows(table, fitted)
    return Initial(table, tuple(fitted))


def _check_table(table: Table, states: Mapping[str, State[Any]], key: Schema) -> None:
    own = [table.schema.type_of(name) for name in table.key]
    if len(own) != len(key.names) or not all(
        one == kind or (is_integer(one) and is_integer(kind)) for one, (_, kind) in zip(own, key, strict=True)
    ):
        raise DefinitionError(
            f"the table '{table.name}' has the key {', '.join(table.key)}, and the processor {', '.join(key.names)}",
            hint="initial= takes a table with the same key",
        )
    for name, kind in table.schema:
        if name in states and name not in table.key and _column(states[name]) != kind:
            raise DefinitionError(
                f"'{name}' is {kind} in the table '{table.name}', and {states[name]!r} in the processor",
                hint="declare both with the same type",
            )


def _column(state: State[Any]) -> str | None:
    """The type of the column that has a state's value; None if it cannot be in a row."""
    if isinstance(state, Value):
        return state.kind.name
    return f"array<{state.kind.name}>" if isinstance(state, ListOf) else None
