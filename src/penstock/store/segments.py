"""Which segments hold the state of large views: rows of the store, so that a commit lists them.

`__sharded` has the views, and streams' ids, whose state is in segments. A segment that another one replaced is listed
with the time of that until its file is removed, because readers may still map it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Final

import polars as pl

from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.state.segment import Segment
from penstock.store.connection import Connection
from penstock.store.dialect import marks

#: The folder of segments in an app's directory.
FOLDER: Final = "state"
#: `expired`: finished windows that ended before are gone.
SEGMENT_TABLES: Final = (
    """CREATE TABLE __sharded (owner TEXT PRIMARY KEY, shards INTEGER NOT NULL, expired INTEGER NOT NULL)
       WITHOUT ROWID""",
    """CREATE TABLE __segments (owner TEXT NOT NULL, kind TEXT NOT NULL, run INTEGER NOT NULL, path TEXT NOT NULL,
       "offset" INTEGER NOT NULL, length INTEGER NOT NULL, rows INTEGER NOT NULL, gone INTEGER NOT NULL,
       low INTEGER NOT NULL, high INTEGER NOT NULL, first_end INTEGER NOT NULL, last_end INTEGER NOT NULL,
       due INTEGER NOT NULL, checksum INTEGER NOT NULL, removed INTEGER, PRIMARY KEY (path, "offset")) WITHOUT ROWID""",
    "CREATE INDEX __segments_owner ON __segments (owner) WHERE removed IS NULL",
)
_COLUMNS: Final = [field.name for field in fields(Segment)]
_SELECT: Final = ", ".join('"offset"' if name == "offset" else name for name in _COLUMNS)


@dataclass(frozen=True)
class Sharding:
    """How an owner's state is cut, and up to where finished windows are gone."""

    owner: str
    shards: int
    expired: Instant = BEGINNING


def shardings(connection: Connection) -> dict[str, Sharding]:
    """The owners whose state is in segments."""
    rows = connection.rows("SELECT owner, shards, expired FROM __sharded ORDER BY owner").iter_rows()
    return {owner: Sharding(owner, shards, expired) for owner, shards, expired in rows}


def add_sharding(connection: Connection, owner: str, shards: int) -> None:
    """From here on the state of an owner is in segments. The number of shards can change at any time."""
    connection.run(
        "INSERT INTO __sharded VALUES (?1, ?2, ?3) ON CONFLICT (owner) DO UPDATE SET shards = excluded.shards",
        [owner, shards, BEGINNING],
    )


def remove_sharding(connection: Connection, owner: str, now: Instant) -> None:
    """The owner is gone, or its state is elsewhere. Its files are removed later."""
    connection.run("DELETE FROM __sharded WHERE owner = ?1", [owner])
    connection.run("UPDATE __segments SET removed = ?2 WHERE owner = ?1 AND removed IS NULL", [owner, now])


def segments_of(connection: Connection, owner: str) -> tuple[Segment, ...]:
    """The segments that hold an owner's state now."""
    return _segments(connection, "owner = ?1 AND removed IS NULL", [owner])


def all_segments(connection: Connection) -> tuple[Segment, ...]:
    """Those of all owners."""
    return _segments(connection, "removed IS NULL", [])


def replaced_segments(connection: Connection, before: Instant) -> tuple[Segment, ...]:
    """Those that were replaced before an instant and are listed still."""
    return _segments(connection, "removed < ?1", [before])


def _segments(connection: Connection, where: str, parameters: Sequence[object]) -> tuple[Segment, ...]:
    rows = connection.rows(f'SELECT {_SELECT} FROM __segments WHERE {where} ORDER BY run, path, "offset"', parameters)
    return tuple(Segment(*row) for row in rows.iter_rows())


def list_segments(connection: Connection, segments: Sequence[Segment]) -> None:
    """Makes segments a part of the state."""
    for segment in segments:
        values = [*astuple(segment), None]
        connection.run(f"INSERT INTO __segments VALUES ({marks(len(values))})", values)


def replace_segments(connection: Connection, old: Collection[Segment], new: Sequence[Segment], now: Instant) -> None:
    """Lists segments in the place of others."""
    gone = pl.DataFrame(
        [(segment.path, segment.offset, now) for segment in old],
        {"path": pl.String, "offset": pl.Int64, "now": pl.Int64},
        orient="row",
    )
    connection.change("__segments", "removed = ?3", 'path = ?1 AND "offset" = ?2', gone)
    list_segments(connection, new)


def forget_segments(connection: Connection, segments: Collection[Segment]) -> None:
    """The files of replaced segments are gone."""
    places = pl.DataFrame(
        [(segment.path, segment.offset) for segment in segments], {"path": pl.String, "offset": pl.Int64}, orient="row"
    )
    connection.remove("__segments", 'path = ?1 AND "offset" = ?2', places)


def note_expired(connection: Connection, owner: str, before: Instant) -> None:
    """What is older than an instant is gone, for readers at once."""
    connection.run("UPDATE __sharded SET expired = ?2 WHERE owner = ?1 AND expired < ?2", [owner, before])


def expire_segments(connection: Connection, owner: str, before: Instant, now: Instant) -> None:
    """Finished windows that ended before an instant are gone: whole segments here, single rows when they are merged.

    A segment stays as long as an older one has a window that was still open: its older version would come back.
    """
    note_expired(connection, owner, before)
    connection.run(
        "UPDATE __segments SET removed = ?4 WHERE owner = ?1 AND removed IS NULL AND kind IN ('rows', 'final') "
        "AND last_end < ?2 AND first_end = ?3 AND NOT EXISTS (SELECT 1 FROM __segments o WHERE o.owner = ?1 "
        "AND o.kind = __segments.kind AND o.removed IS NULL AND o.run < __segments.run AND o.first_end < ?2)",
        [owner, before, FOREVER, now],
    )
