"""The part of a store that keeps generations in the making, and swaps them in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import polars as pl

from penstock.kernel.merge import one_row
from penstock.kernel.plan import Plan
from penstock.kernel.step import Change
from penstock.model.time import Instant
from penstock.store import generations, signed
from penstock.store.base import Commit, Keep
from penstock.store.connection import Connection
from penstock.store.generations import Difference, Made, Origin, Scope
from penstock.store.signed import Signer
from penstock.store.state import SqlState, put
from penstock.store.tables import Layout, drop_view
from penstock.store.write import closing_bounds, trim, write


class Generating(ABC):
    """Generations of a store's views."""

    keep: Keep
    _states: dict[str, SqlState]

    @abstractmethod
    def _transaction(self, checked: bool = True) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def _own_read(self) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def _state_of(self, layout: Layout, connection: Connection) -> SqlState: ...

    @abstractmethod
    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame: ...

    @abstractmethod
    def state(self, view: str) -> SqlState: ...

    def hidden(self, view: str) -> str:
        """The name of the next generation of a view while it is in the making."""
        made = self.generations(view)
        return generations.hidden_name(view, made[-1].number + 1 if made else 2)

    def begin_generation(self, hidden: str, plan: Plan) -> None:
        """Makes hidden tables for a generation; by their name `state` and `load` know them."""
        with self._transaction() as connection:
            layout = Layout(hidden, plan, connection.dialect)
            connection.script([*drop_view(hidden, connection.dialect), *layout.create_hidden()])
            put(connection, layout, one_row(plan), final=False)
            self._states[hidden] = self._state_of(layout, connection)

    def load(self, hidden: str, change: Change) -> None:
        """Takes up rows of a generation in the making. Its panes are shown to nobody."""
        with self._transaction():
            self.state(hidden).apply(change)

    def end_generation(self, hidden: str) -> None:
        """Removes a generation that is swapped in or given up."""
        with self._transaction() as connection:
            self._states.pop(hidden, None)
            connection.script(drop_view(hidden, connection.dialect))

    def compare_generation(self, view: str, hidden: str, scope: Scope, limit: int) -> Difference:
        """How a generation in the making differs from the current one, with so many rows of it."""
        with self._own_read() as connection:
            old, new = self.state(view).layout, self.state(hidden).layout
            return generations.compare(connection, old, new, scope, limit)

    def swap(self, view: str, hidden: str, record: Commit, origin: Origin, scope: Scope) -> int:
        """Makes a generation the current one, with its corrections, in one transaction; the commit's number."""
        old, new = self._states.get(view), self.state(hidden)
        watermark = record.view_times[view]
        with self._transaction() as connection:
            if old is not None and old.plan.written == new.plan.written:
                state, layout = old, old.layout
                panes = generations.swap_rows(connection, layout, new.layout, scope, watermark)
                origin = replace(origin, statement=generations.statement_of(connection, view))
            else:
                before = None if old is None else old.layout
                panes = generations.swap_tables(connection, before, new.layout, view, watermark, scope)
                layout = Layout(view, new.plan, connection.dialect)
                state = self._state_of(layout, connection)
                generations.note_definition(connection, before, layout, origin.statement)
            record = replace(record, changes={view: generations.with_panes(layout.plan, panes)})
            number = write(connection, record, {view: state})
            generations.remember(connection, view, repr(layout.plan.written), origin, number, record.now)
            trim(connection, record, number, self.keep)
        self._states[view] = state
        for name, bound in closing_bounds(record, {view: state}).items():
            self._states[name].closed = bound
        return number

    def unknown_definitions(self, definitions: Mapping[str, str]) -> list[str]:
        """The views whose definition, as text, no remembered generation has."""
        with self._own_read() as connection:
            return generations.unknown(connection, definitions)

    def note_definition(self, view: str, definition: str, pickled: bytes | None, now: Instant) -> None:
        """Remembers a definition that no run from the past has made."""
        with self._transaction() as connection:
            origin = Origin(generations.FIRST, 0, generations.statement_of(connection, view), pickled)
            generations.remember(connection, view, definition, origin, 0, now)

    def foreign_code(self, signer: Signer) -> list[str]:
        """What the store holds of Python code that another app has written: views and streams by name."""
        with self._own_read() as connection:
            return signed.foreign(connection, signer)

    def trust_code(self, signer: Signer) -> None:
        """Takes the Python code in the store for this app's own."""
        with self._transaction() as connection:
            signed.sign_again(connection, signer)

    def generations(self, view: str) -> list[Made]:
        """The generations of a view that are remembered, oldest first. The first definition is not one of them."""
        rows = self._rows(
            'SELECT view, number, kind, definition, statement, pickled, point, "commit", now FROM __generations '
            "WHERE view = ?1 ORDER BY number", [view],
        )  # fmt: skip
        return [Made(*row) for row in rows.iter_rows()]
