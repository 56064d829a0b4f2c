"""SUBSCRIBE: the panes of a view as they fire, read from the outbox of the store by their number.

It needs the store only: it works from any process, and goes on when the app behind it is started again. A subscription
that falls behind by more panes than the outbox keeps is ended with an error, since panes would be missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeAlias

import polars as pl

from penstock.errors import PenstockError, RowError
from penstock.kernel.expressions import dtype
from penstock.model.expressions import evaluate
from penstock.model.time import BEGINNING, END, instant, to_datetime
from penstock.model.types import Schema
from penstock.sinks.rows import decoded, pane_values, window_bound
from penstock.sql.answers import subscribed, with_pane
from penstock.sql.statements import Subscribe
from penstock.store import Reader
from penstock.store.block import KEY, VALUE, Block
from penstock.store.connection import Connection
from penstock.store.presented_rows import presented_rows_at
from penstock.store.segment_scan import from_newest

Row: TypeAlias = dict[str, object]
Ask: TypeAlias = Callable[[str, Sequence[object]], pl.DataFrame]

#: How many blocks of panes are read at once.
BLOCKS: Final = 4
_BLOCKS: Final = """SELECT o.first, o.last, o."commit", o.panes, c.epoch FROM __outbox o
    LEFT JOIN __commits c ON c.number = o."commit" WHERE o.last > ?1 AND o.view = ?2 ORDER BY o.last LIMIT ?3"""


class SubscriptionError(PenstockError):
    """A subscription cannot go on."""


class Panes:
    """What a SUBSCRIBE gets: rows of the view's columns, and of what tells one pane from another."""

    def __init__(self, reader: Reader, statement: Subscribe) -> None:
        self._reader = reader
        known = {entry.name: entry for entry in reader.catalog() if entry.kind == "view"}
        asked = subscribed(known, statement, lambda name: with_pane(known[name].columns))
        self._entry, self._where = known[asked.view], asked.where
        self._schema: Schema = with_pane(self._entry.columns)
        if asked.where is not None and asked.where.outside is not None and statement.where is not None:
            raise statement.source.error(
                f"'{statement.where.text}' cannot be evaluated on a pane: {asked.where.outside}", statement.where,
                hint="leave it out, and choose among the rows",
            )  # fmt: skip
        self._progress = asked.progress
        self.columns = (*self._schema.names, *(("watermark",) if asked.progress else ()))
        self._snapshot: list[Row] = []
        from_newest(lambda: self._begin(asked.snapshot))

    def _begin(self, snapshot: bool) -> None:
        """Notes where the panes are, and takes the rows of the same moment."""
        with self._reader.moment_of() as connection:
            self._position, self._commit = _counted(connection.answer)
            self._snapshot = self._table(connection) if snapshot else []

    def follow(self, every: float = 0.1) -> Iterator[list[Row]]:
        """The current rows, and then new ones, some at a time; it never ends. No rows: there is nothing new."""
        yield self._snapshot
        while True:
            rows, more = self.take()
            yield rows
            if not more:
                time.sleep(every)

    def take(self) -> tuple[list[Row], bool]:
        """The rows since the last time, and whether there are more already."""
        with self._reader.moment() as ask:
            self._check(ask)
            blocks = ask(_BLOCKS, [self._position, self._entry.name, BLOCKS])
            newest, commit = _counted(ask)
            more = blocks.height == BLOCKS
            root = self._reader.segments_at
            rows = [row for *block, epoch in blocks.iter_rows() for row in self._panes(Block(*block, root=root), epoch)]
            self._position = int(blocks["last"][-1]) if more else newest
            if self._progress and not more and commit > self._commit and not rows:
                rows = [self._told(ask, commit)]
            if not more:
                self._commit = commit
            return rows, more

    def _check(self, ask: Ask) -> None:
        """Refuses to go on where panes are missing, or where they are another view's."""
        name = self._entry.name
        if not ask("SELECT 1 FROM __catalog WHERE id = ?1", [self._entry.id]).height:
            if ask("SELECT 1 FROM __generations WHERE view = ?1 AND kind IN ('replace', 'rollback')", [name]).height:
                raise SubscriptionError(
                    f"the view '{name}' was replaced by one with other columns", hint="subscribe again WITH (SNAPSHOT)"
                )
            raise SubscriptionError(f"the view '{name}' was dropped", hint="SHOW VIEWS lists the views")
        for (trimmed,) in ask("SELECT value FROM __meta WHERE name = 'trimmed'", []).iter_rows():
            if trimmed > self._position:
                raise SubscriptionError(
                    f"the subscription to '{name}' has fallen behind: the panes {self._position + 1} to {trimmed} of "
                    "all views are gone from the outbox",
                    hint="subscribe again WITH (SNAPSHOT)",
                )

    # rows

    def _table(self, connection: Connection) -> list[Row]:
        """The view's table, as rows that are there."""
        rows = presented_rows_at(connection, self._reader.segments_at, self._entry.name)
        more: Row = {"diff": 1, "kind": "insert", "timing": "snapshot", "index": None, "epoch": None}
        return [
            row
            for values in rows.iter_rows(named=True)
            if (row := self._row(self._decoded({**more, "commit": self._commit, **values}))) is not None
        ]

    def _decoded(self, row: Row) -> Row:
        """A row of the store's in the types of its columns."""
        return {name: decoded(row[name], dtype(kind)) for name, kind in self._schema}

    def _panes(self, block: Block, epoch: int | None) -> Iterator[Row]:
        """The panes of a block that are new and for which the condition holds."""
        panes = block.panes.filter(pl.col("id") > self._position)
        own = {name: dtype(kind) for name, kind in self._entry.columns}
        names = list(own)
        place = names.index("window_start")
        counted = self._schema.type_of("window_start") != "timestamp"
        columns: dict[str, list[Any]] = {
            "diff": [1 if kind == "insert" else -1 for kind in panes["kind"]],
            "epoch": [epoch] * panes.height,
            **{name: panes[name].to_list() for name in ("kind", "timing", "index", "commit", "final")},
            **pane_values(panes, KEY, {name: own[name] for name in names[:place]}),
            "window_start": [window_bound(bound, counted) for bound in panes["start"].to_list()],
            "window_end": [window_bound(bound, counted) for bound in panes["end"].to_list()],
            **pane_values(panes, VALUE, {name: own[name] for name in names[place + 2 : -1]}),
        }
        for values in zip(*(columns[name] for name in self._schema.names), strict=True):
            if (row := self._row(dict(zip(self._schema.names, values, strict=True)))) is not None:
                yield row

    def _row(self, values: Row) -> Row | None:
        """A row, if the condition holds for it."""
        if self._where is not None and not self._holds(values):
            return None
        return {**values, "watermark": None} if self._progress else values

    def _holds(self, values: Row) -> bool:
        assert self._where is not None
        try:
            return evaluate(self._where, {name: _of_model(value) for name, value in values.items()}) is True
        except RowError:
            return False  # no answer is no 'yes', as with null

    def _told(self, ask: Ask, commit: int) -> Row:
        """How far commits and time are, where nothing fired."""
        (mark,) = ask("SELECT max(watermark) FROM __views WHERE name = ?1", [self._entry.name]).row(0)
        row: Row = {**dict.fromkeys(self.columns), "kind": "progress", "commit": commit}
        return row | {"watermark": to_datetime(mark) if mark is not None and BEGINNING < mark < END else None}


def _counted(ask: Ask) -> tuple[int, int]:
    """The newest pane that was ever fired, and the last commit."""
    (panes,) = ask("SELECT value FROM __meta WHERE name = 'panes'", []).row(0)
    (commit,) = ask("SELECT coalesce(max(number), 0) FROM __commits", []).row(0)
    return int(panes), int(commit)


def _of_model(value: object) -> object:
    """A value of Python as the model has it: instants in microseconds, dates in days."""
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return [_of_model(part) for part in value] if isinstance(value, list) else value
