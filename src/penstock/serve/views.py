"""Views, streams and sinks of the store, for the server: read again when the store has changed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError, unknown
from penstock.model.time import BEGINNING, END, Instant
from penstock.serve.askers import Askers, Question
from penstock.serve.errors import Answered
from penstock.serve.shown import moment
from penstock.store.format import IN_SEGMENTS

#: Seconds after which the catalog is read again, while requests use the old one; an unknown name is looked up at once.
#: Requests wait if the catalog is older than `_OLD`.
_FRESH, _OLD = 1.0, 2.0
_FROM: Final = re.compile(r'CREATE VIEW "(?:[^"]|"")+" AS (SELECT .*) FROM ("__(?:[^"]|"")+")( WHERE .*)?', re.DOTALL)
_HIDDEN: Final = "__end AS __e, __start AS __s, __key AS __k"


@dataclass(frozen=True)
class ViewEntry:
    """A view: its columns with their types, the SELECT for its rows, and its watermark."""

    id: int
    name: str
    definition: str
    columns: dict[str, str]
    select: str
    watermark: Instant | None
    rests: bool

    @property
    def keys(self) -> dict[str, str]:
        """The columns before the window."""
        names = list(self.columns)
        return {name: self.columns[name] for name in names[: names.index("window_start")]}

    @property
    def has_windows(self) -> bool:
        return not re.search(r'NULL(::text)? AS "window_start"', self.select)

    @property
    def in_segments(self) -> bool:
        """Whether its rows are in segments, which only some processes can read."""
        return IN_SEGMENTS in self.select

    def body(self) -> dict[str, Any]:
        """The view as JSON."""
        return {
            "name": self.name,
            "keys": list(self.keys),
            "columns": [{"name": name, "type": kind} for name, kind in self.columns.items()],
            "watermark": moment(self.watermark),
            "active": not self.rests,
            "definition": self.definition,
        }


@dataclass(frozen=True)
class CatalogSnapshot:
    """The catalog of a store at one moment."""

    views: dict[str, ViewEntry]
    streams: dict[str, dict[str, Any]]
    sinks: dict[str, dict[str, Any]]

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(view.columns) for name, view in self.views.items()}


class Catalog:
    """Caches the catalog of the store."""

    def __init__(self, askers: Askers) -> None:
        self._askers = askers
        self._known: CatalogSnapshot | None = None
        self._read = 0.0
        self._refreshing: asyncio.Task[None] | None = None

    async def view(self, name: str) -> ViewEntry:
        known = await self.known()
        if name not in known.views:
            known = await self.known(fresh=True)
        if name not in known.views:
            raise not_there("view", name, known.views)
        return known.views[name]

    async def moved(self, view: ViewEntry) -> ViewEntry | None:
        """A view whose rows were moved into segments or out of them since it was looked up; None if they were not."""
        now = (await self.known(fresh=True)).views.get(view.name)
        return None if now is None or now.in_segments == view.in_segments else now

    async def known(self, fresh: bool = False) -> CatalogSnapshot:
        """The catalog; read now, if it must be `fresh`."""
        age = time.monotonic() - self._read
        if fresh or self._known is None or age > _OLD:
            return await self._look()
        if age > _FRESH and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh())
        return self._known

    async def _refresh(self) -> None:
        with suppress(PenstockError):  # the next request that has to wait reports it
            await self._look()

    async def _look(self) -> CatalogSnapshot:
        known = await _look(self._askers)
        self._known, self._read = known, time.monotonic()
        return known

    async def close(self) -> None:
        """Stops reading."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)


def not_there(what: str, name: str, known: Any) -> Answered:
    error = unknown(what, name[:100], known)
    return Answered(404, error.message, detail=error.detail, hint=error.hint)


_VIEWS: Final = """SELECT c.id, v.name, v.definition, c.columns, s.sql, v.watermark, c.rested IS NOT NULL
    FROM __views v JOIN __catalog c ON c.kind = 'view' AND c.name = v.name
    JOIN {schema} s ON s.type = 'view' AND s.name = v.name ORDER BY v.name"""
_COUNTERS: Final = "SELECT name, value FROM __counters"
_STREAMS: Final = "SELECT stream, schema, keep FROM __kept"
_TRACKERS: Final = "SELECT stream, snapshot FROM __trackers"
_SINKS: Final = """SELECT sink, position, (SELECT value FROM __meta WHERE name = 'panes') FROM __sinks
    UNION SELECT name, 0, (SELECT value FROM __meta WHERE name = 'panes') FROM __catalog
    WHERE kind = 'sink' AND name NOT IN (SELECT sink FROM __sinks)"""


async def _look(askers: Askers) -> CatalogSnapshot:
    schema = askers.database.dialect.schema
    texts = (_VIEWS.format(schema=schema), _COUNTERS, _STREAMS, _TRACKERS, _SINKS)
    views, counters, streams, trackers, sinks = await askers.own(*(Question(text) for text in texts))
    return CatalogSnapshot(
        {view.name: view for row in views.rows if (view := _described(row)) is not None},
        _streams(
            counters.rows, streams.rows, {name: json.loads(tracker)["watermark"] for name, tracker in trackers.rows}
        ),
        {name: {"name": name, "position": at, "newest": newest} for name, at, newest in sorted(sinks.rows)},
    )


def _described(row: list[Any]) -> ViewEntry | None:
    id, name, definition, columns, sql, watermark, rests = row
    parts = _FROM.fullmatch(sql)
    if parts is None:
        return None  # a view of the store's own making has this form
    select = f"{parts[1]}, {_HIDDEN} FROM {parts[2]}{parts[3] or ''}"
    return ViewEntry(id, name, definition, dict(json.loads(columns)), select, watermark, bool(rests))


def _streams(counters: list[Any], kept: list[Any], trackers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    streams: dict[str, dict[str, Any]] = {}
    for name, schema, keep in kept:
        streams[name] = {"name": name, "schema": schema, "keep": keep}
    for counter, value in counters:
        stream, _, kind = counter.rpartition(".")
        streams.setdefault(stream, {"name": stream}).setdefault("counters", {})[kind] = value
    for stream, mark in trackers.items():
        bounded = mark if isinstance(mark, int) and BEGINNING < mark < END else None
        streams.setdefault(stream, {"name": stream})["watermark"] = moment(bounded)
    for entry in streams.values():
        entry.setdefault("schema", None)
        entry.setdefault("keep", None)
        entry.setdefault("watermark", None)
        entry.setdefault("counters", {})
    return dict(sorted(streams.items()))
