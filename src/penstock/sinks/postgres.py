"""A sink that is a table in PostgreSQL: the rows of a batch and its position are written in one transaction.

>>> to_postgres("public.trending", url="postgresql://writer:secret@db/shop")
ps.to_postgres('public.trending', url='postgresql://writer:…@db/shop')

In the mode `upsert` the table holds what the view shows: a row for each key and window, put in the place of the one
before, and removed when it is taken back. In `panes` and `append` each pane is a row of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from penstock.errors import DefinitionError, in_quotes, unknown
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import Calendar, CountBased, Fixed, Sliding
from penstock.postgres import EXAMPLE, check
from penstock.redaction import redact_url
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, SinkError, Target, above_zero
from penstock.sinks.postgres_claim import Claim
from penstock.sinks.postgres_session import OLDEST, Session, StatementError
from penstock.sinks.postgres_table import STAGE, Layout, layout, literal, names_of

#: Holds the URL for sinks that do not name one.
VARIABLE: Final = "PENSTOCK_POSTGRES_URL"
_ROWS: Final = 50_000


@dataclass(frozen=True, repr=False)
class Postgres(Sink):
    """A table, with up to `rows_per_transaction` panes at once."""

    table: str
    url: str | None = None
    key: tuple[str, ...] | None = None
    create: bool = True
    rows_per_transaction: int = _ROWS

    modes: ClassVar[tuple[Mode, ...]] = ("upsert", "panes", "append")
    whole_commits: ClassVar[bool] = True  # so that readers of the table see the view as it was after a commit

    @property
    def rows(self) -> int:
        return self.rows_per_transaction

    def open(self, target: Target) -> OpenSink:
        return _Writing(self, target)

    def check_view(self, view: View) -> None:
        if self.key is None:
            return
        if self.mode != "upsert":
            raise DefinitionError(f"{self!r} adds rows, and needs no key", hint="leave out key, or use mode='upsert'")
        keys = [name for name, _ in view.keys]
        windows = list(WINDOW_COLUMNS) if view.windows.ends else []
        for name in self.key:
            if name not in (*keys, *windows):
                raise unknown("column of the key", name, (*keys, *windows))
        needed = keys + windows
        if isinstance(view.windows, (Fixed, Sliding, Calendar, CountBased)):
            needed.remove("window_end")  # it follows from where the window starts
        if missing := [name for name in needed if name not in self.key]:
            raise DefinitionError(
                f"the key of {self!r} would overwrite rows of other keys: it lacks {', '.join(missing)}",
                hint=f"leave out key: it is {', '.join(keys + windows)}",
            )

    def __repr__(self) -> str:
        return self.written("to_postgres", "table", "upsert", url=redact_url, key=list)


class _Writing(OpenSink):
    def __init__(self, sink: Postgres, target: Target) -> None:
        self._sink, self._target = sink, target
        self._url = _url(sink.url)
        self._session: Session | None = None
        session = Session(self._url, "penstock-sink")
        try:
            self._layout = self._table_layout(session)
            self._claim = Claim(target, self._layout)
            self._claim.prepare(session)
            self.position = self._claim.take(session)
        finally:
            session.close()

    def take(self, batch: Batch) -> None:
        if self._session is None:
            self._connect()
        if batch.last <= self.position:
            return  # a transaction of which we did not learn that it was committed
        try:
            self._write(batch)
        except BaseException:
            self.close()
            raise
        self.position = batch.last

    def _write(self, batch: Batch) -> None:
        session = self._session
        assert session is not None
        session.run("BEGIN")
        position = self._claim.locked(session)
        rows = [row for row in batch.rows if row["pane"] > position]
        if rows:
            frame = self._layout.frame(rows)
            session.copy(STAGE, frame)
            for statement in [*(self._layout.deletes(frame) if self._layout.replaces else []), self._layout.insert]:
                session.run(statement)
        self._claim.move(session, max(position, batch.last))
        session.run("COMMIT")

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # the connection

    def _connect(self) -> None:
        """A connection that writes; what a lost one may still do there is ended first."""
        session = Session(self._url, self._claim.name)
        try:
            self.position = self._claim.resume(session)
            session.run(self._layout.stage)
        except BaseException:
            session.close()
            raise
        self._session = session

    # the table

    def _table_layout(self, session: Session) -> Layout:
        """The table as it is; fitting where it is missing, and refused where it cannot take our rows."""
        version = int(session.run("SHOW server_version_num")[0][0])
        if version < OLDEST:
            raise SinkError(f"PostgreSQL {version // 10000} is too old", hint="a sink needs PostgreSQL 15 or newer")
        schema, name = names_of(self._sink.table)
        schema = schema or session.run("SELECT current_schema()::text")[0][0]
        wanted = layout(schema or "public", name, self._target, self._sink.mode, self._sink.key)
        if not self._columns(session, wanted):
            self._make(session, wanted)
        existing = self._columns(session, wanted)
        self._check(wanted, existing)
        fitting = wanted.having(existing)
        self._try(session, wanted, fitting)
        return fitting

    def _columns(self, session: Session, wanted: Layout) -> dict[str, bool]:
        """The columns that the table has, and whether each must be given."""
        rows = session.run(
            "SELECT attname::text, attnotnull AND NOT atthasdef AND attidentity = '' FROM pg_attribute "
            f"WHERE attrelid = to_regclass({literal(wanted.shown)}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return dict(rows)

    def _make(self, session: Session, wanted: Layout) -> None:
        if not self._sink.create:
            raise SinkError(f"there is no table {wanted.shown}", hint=f"make it:\n{wanted.create};")
        try:
            session.run(wanted.create)
        except StatementError as error:
            raise SinkError(
                f"cannot make the table {wanted.shown}", detail=error.message, hint=f"make it:\n{wanted.create};"
            ) from None

    def _check(self, wanted: Layout, existing: dict[str, bool]) -> None:
        missing = [name for name in wanted.columns if name not in existing]
        if missing:
            raise SinkError(
                f"the table {wanted.shown} lacks {in_quotes(missing)}",
                detail=f"it has {in_quotes(existing)}",
                hint=f"add the missing columns; a table that fits:\n{wanted.create};",
            )
        known = {**wanted.columns, **wanted.extra}
        if demanded := [name for name, must in existing.items() if must and name not in known]:
            raise SinkError(
                f"the table {wanted.shown} requires {in_quotes(demanded)}, which the view does not have",
                hint="give these columns a default, or let them be null",
            )

    def _try(self, session: Session, wanted: Layout, layout: Layout) -> None:
        """Has the database plan our statement, so that errors show up now."""
        session.run(layout.stage)
        try:
            session.run(f"EXPLAIN {layout.insert}")
        except StatementError as error:
            raise SinkError(
                f"the table {wanted.shown} cannot take the rows of '{self._target.view}'",
                detail=error.message,
                hint=f"a table that fits:\n{wanted.create};",
            ) from None


def to_postgres(
    table: str,
    *,
    url: str | None = None,
    mode: Mode = "upsert",
    key: Sequence[str] | None = None,
    create: bool = True,
    rows_per_transaction: int = _ROWS,
) -> Postgres:
    """A table in PostgreSQL that holds what a view shows, or each of its panes; each counts once, whatever fails.

    Without `url` the environment says where PostgreSQL is, in PENSTOCK_POSTGRES_URL. A password is better kept in
    PGPASSWORD or ~/.pgpass than in the address. `key` are the columns by which rows are put in the place of others:
    without one, the view's keys and the window. A table that is missing is made, unless `create` is false.
    """
    names_of(table)
    if url is not None:
        check(url)
    above_zero(rows_per_transaction, "rows_per_transaction")
    if isinstance(key, str) or (key is not None and not key):
        raise DefinitionError(f"not the columns of a key: {key!r}", hint="a list: key=['item', 'window_start']")
    return Postgres(table, url, None if key is None else tuple(key), bool(create), rows_per_transaction, mode=mode)


def _url(url: str | None) -> str:
    """The URL of a sink, or the one in the environment."""
    known = url or os.environ.get(VARIABLE)
    if not known:
        raise DefinitionError("no address of a PostgreSQL database", hint=f"give url=…, or set {VARIABLE}; {EXAMPLE}")
    check(known)
    return known
