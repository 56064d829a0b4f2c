"""How far sinks in PostgreSQL are, and which process writes as each: the table `__penstock_sinks` beside theirs.

A sink's position is changed in the transaction that brings the panes. Opening a sink writes a new token: a
process that hung, and whose app another one has taken over, finds that its token is gone, and can write nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from penstock.postgres import LOCK_TIMEOUT
from penstock.sinks.base import SinkError, Target, newest_pane
from penstock.sinks.directory import birth_of
from penstock.sinks.postgres_session import Session, StatementError
from penstock.sinks.postgres_table import Layout, literal, quoted

TABLE: Final = "__penstock_sinks"
_COLUMNS: Final = (
    'app text, sink text, "table" text NOT NULL, position bigint NOT NULL, store bigint, token text NOT NULL, '
    "at timestamp with time zone NOT NULL DEFAULT now(), PRIMARY KEY (app, sink)"
)
_LOCK: Final = "SELECT pg_advisory_xact_lock(7067746569)"  # one process at a time makes tables
_BUSY: Final = "55P03"  # PostgreSQL's code for a lock that was not to be had in time


class Fenced(SinkError):
    """Another process writes as this sink."""


@dataclass(frozen=True)
class _Entry:
    table: str
    position: int
    store: int | None
    token: str


class Claim:
    """The entry of one sink. `token` tells this process from all others; `name` is how its connections are shown."""

    def __init__(self, target: Target, layout: Layout) -> None:
        self._target, self._layout = target, layout
        self.token = uuid4().hex
        self._table = f"{quoted(layout.schema)}.{quoted(TABLE)}"
        self._delivery_name = target.delivery_name
        self._mine = f"app = {literal(target.app)} AND sink = {literal(self._delivery_name)}"

    @property
    def name(self) -> str:
        return _name(self.token)

    def prepare(self, session: Session) -> None:
        """Makes the table of positions where it is missing."""
        if not session.run(f"SELECT to_regclass({literal(self._table)})::text")[0][0]:
            session.run("BEGIN")
            session.run(_LOCK)
            session.run(f"CREATE TABLE IF NOT EXISTS {self._table} ({_COLUMNS})")
            session.run("COMMIT")

    def take(self, session: Session) -> int:
        """Shuts out earlier writers of this sink, and returns its position."""
        entry = self._read(session)
        self._check(session, entry)
        self._target.check_owner()
        if entry is not None:
            self._end(session, entry.token)
        session.run("BEGIN")
        session.run(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        try:
            entry = self._read(session, " FOR UPDATE")
        except StatementError as error:
            raise self._busy() if error.code == _BUSY else error from None
        self._check(session, entry)
        position = 0 if entry is None else entry.position
        session.run(
            f'INSERT INTO {self._table} (app, sink, "table", position, store, token) VALUES ({self._values(position)}) '
            "ON CONFLICT (app, sink) DO UPDATE SET token = EXCLUDED.token, store = EXCLUDED.store, at = now()"
        )
        session.run("COMMIT")
        return position

    def resume(self, session: Session) -> int:
        """How far the sink is, after a connection was lost, of which something may still be at work."""
        entry = self._read(session)
        if entry is None or entry.token != self.token:
            raise self._fenced()
        self._end(session, entry.token)
        return self.locked(session, "FOR SHARE")

    def locked(self, session: Session, how: str = "FOR UPDATE") -> int:
        """How far the sink is; in a transaction, nobody else gets it before its end."""
        entry = self._read(session, f" {how}")
        if entry is None or entry.token != self.token:
            raise self._fenced()
        return entry.position

    def move(self, session: Session, position: int) -> None:
        """Says how far the sink is, in the transaction that brings it there."""
        store = literal(birth_of(self._target.outbox))
        session.run(
            f"UPDATE {self._table} SET position = {position}, store = coalesce({store}, store), at = now() "
            f"WHERE {self._mine}"
        )

    # what is there

    def _read(self, session: Session, lock: str = "") -> _Entry | None:
        rows = session.run(f'SELECT "table", position, store, token FROM {self._table} WHERE {self._mine}{lock}')
        return _Entry(*rows[0]) if rows else None

    def _values(self, position: int) -> str:
        target = self._target
        values = (target.app, self._delivery_name, self._layout.shown, position, birth_of(target.outbox), self.token)
        return ", ".join(map(literal, values))

    def _end(self, session: Session, token: str) -> None:
        """Ends connections that write under a token; one that hangs in a transaction would be waited for."""
        session.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            f"AND usename = current_user AND application_name = {literal(_name(token))}"
        )

    def _check(self, session: Session, entry: _Entry | None) -> None:
        """Refuses an entry that this store cannot have made, and a table that another sink fills."""
        if entry is None:
            self._check_others(session)
            return
        outbox, table = self._target.outbox, self._layout.shown
        if entry.table != table:
            raise SinkError(
                f"the sink '{self._target.sink}' has delivered its panes up to {entry.position} into {entry.table}",
                detail=f"{table} would get only later panes",
                hint=f"give the sink another name, or forget the old table: {self._forget()}",
            )
        birth, newest = birth_of(outbox), newest_pane(outbox)
        if entry.position > newest or (None not in (birth, entry.store) and birth != entry.store):
            raise SinkError(
                f"the table {table} has panes of another store up to {entry.position}, whose pane ids are different",
                detail=f"the sink is '{self._target.sink}', and our store has fired {newest} panes",
                hint=f"choose another table and another name for the sink, or empty this one and {self._forget()}",
            )

    def _check_others(self, session: Session) -> None:
        if not self._layout.replaces:
            return
        others = session.run(
            f'SELECT app, sink FROM {self._table} WHERE "table" = {literal(self._layout.shown)} AND NOT ({self._mine})'
        )
        for app, sink in others:
            raise SinkError(
                f"the table {self._layout.shown} is filled by another sink: '{sink}' of the app '{app}'",
                hint="give each sink a table of its own; if that sink is gone: "
                f"DELETE FROM {self._table} WHERE app = {literal(app)} AND sink = {literal(sink)}",
            )

    def _forget(self) -> str:
        return f"DELETE FROM {self._table} WHERE {self._mine}"

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another process writes to the table {self._layout.shown} as the sink '{self._target.sink}'",
            hint="stop one of the two, or give one of the apps another name",
        )

    def _busy(self) -> SinkError:
        return SinkError(
            f"the previous writer of the table {self._layout.shown} still holds its lock",
            hint="its connection could not be ended: both must use the same role, or end it by pg_terminate_backend",
        )


def _name(token: str) -> str:
    return f"penstock-sink-{token}"
