"""What the store remembers of the history: its files, each listed by the commit that brought it, and what was decided.

A file is part of the history because it is listed here, not because it exists. Lists change in transactions only; the
files themselves never do.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

import polars as pl

from penstock.model.time import Instant
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import marks, quoted, select
from penstock.store.file import File as File
from penstock.store.file import HistorySize, Listing, StreamHistory
from penstock.store.file import Tombstone as Tombstone

HISTORY_TABLES: Final = (
    """CREATE TABLE __files (path TEXT PRIMARY KEY, stream TEXT NOT NULL, kind TEXT NOT NULL,
       first INTEGER NOT NULL, last INTEGER NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
       checksum TEXT NOT NULL, oldest INTEGER, newest INTEGER, erased INTEGER NOT NULL, query TEXT, epoch INTEGER,
       removed INTEGER, removed_at INTEGER, level INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    "CREATE INDEX __files_of ON __files (stream, kind, first)",
    """CREATE TABLE __kept (stream TEXT PRIMARY KEY, keep TEXT NOT NULL, since INTEGER,
       schema TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE __tombstones (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL,
       "commit" INTEGER NOT NULL, condition TEXT NOT NULL, reason TEXT, at INTEGER NOT NULL)""",
    """CREATE TABLE __retried (stream TEXT NOT NULL, "commit" INTEGER NOT NULL,
       partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, by INTEGER NOT NULL,
       PRIMARY KEY (stream, "commit", partition, "offset")) WITHOUT ROWID""",
    "CREATE TABLE __history (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
)
#: The bytes of a stream's history that epochs have written, and compaction again.
WRITTEN: Final = """CREATE TABLE __written (stream TEXT PRIMARY KEY, bytes INTEGER NOT NULL, again INTEGER NOT NULL)
    WITHOUT ROWID"""


_COLUMNS: Final = tuple(field.name for field in fields(File))
_LAST: Final = "(SELECT coalesce(max(number), 0) FROM __commits)"


# written by a commit


def write_files(connection: Connection, files: Sequence[File], number: int) -> None:
    """Lists the files that a commit brings: each holds rows of this one."""
    _insert(connection, (replace(file, first=number, last=number) for file in files))
    _note_written(connection, files, "bytes")


def _insert(connection: Connection, files: Iterable[File]) -> None:
    places = ", ".join(quoted(name) for name in _COLUMNS)
    for file in files:
        values = [getattr(file, name) for name in _COLUMNS]
        connection.run(f"INSERT INTO __files ({places}) VALUES ({marks(len(values))})", values)


def _note_written(connection: Connection, files: Iterable[File], how: str) -> None:
    for file in files:
        connection.run(
            "INSERT INTO __written VALUES (?1, ?2, ?3) ON CONFLICT (stream) DO UPDATE SET "
            "bytes = __written.bytes + excluded.bytes, again = __written.again + excluded.again",
            [file.stream, file.bytes if how == "bytes" else 0, file.bytes if how == "again" else 0],
        )


def write_retried(connection: Connection, stream: str, places: pl.DataFrame, number: int) -> None:
    """Records the dead letters (`commit`, `partition`, `offset`) that a commit has retried."""
    rows = places.select(
        pl.lit(stream).alias("stream"),
        pl.col("commit").cast(pl.Int64),
        pl.col("partition").cast(pl.Int64),
        pl.col("offset").cast(pl.Int64),
        pl.lit(number, pl.Int64).alias("by"),
    )
    connection.put("__retried", rows, columns=rows.columns)


# what is kept, and where


def create(connection: Connection) -> None:
    """The tables, and a name for the files that this store writes: no other store has it."""
    connection.script((*HISTORY_TABLES, WRITTEN))
    connection.run("INSERT INTO __history VALUES ('home', ?1)", [secrets.token_hex(6)])


def renew_home(connection: Connection) -> None:
    """Another name for the files that this store writes."""
    connection.run("UPDATE __history SET value = ?1 WHERE name = 'home'", [secrets.token_hex(6)])


def settle(connection: Connection, location: str | None) -> None:
    """Remembers where the history lies (None: in the app's directory); refuses to look for its files elsewhere."""
    known = connection.rows("SELECT value FROM __history WHERE name = 'location'")
    held = connection.rows("SELECT 1 FROM __files LIMIT 1").height > 0
    if known.height and held and known.item() != location:
        there, here = known.item() or "the app's directory", location or "the app's directory"
        raise StoreError(
            f"the history lies in {there}, and not in {here}",
            hint="pass history_at as before; to move it, move its files, then the store's row __history.location",
        )
    sql = "INSERT INTO __history VALUES ('location', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    connection.run(sql, [location])


def note_kept(connection: Connection, streams: Mapping[str, tuple[str, str]]) -> None:
    """Remembers what is kept of each stream, and its schema. Where that begins late, earlier commits are not held."""
    for stream, (keep, schema) in streams.items():
        held_since = connection.rows("SELECT since FROM __kept WHERE stream = ?1", [stream])
        since = held_since.item() if held_since.height else None
        if keep == "none":
            since = None
        elif since is None:
            has = connection.rows("SELECT 1 FROM __counters WHERE name = ?1 || '.events'", [stream]).height
            since = connection.rows(f"SELECT {_LAST}").item() if has else 0
        connection.run(
            "INSERT INTO __kept VALUES (?1, ?2, ?3, ?4) "
            "ON CONFLICT (stream) DO UPDATE SET keep = excluded.keep, since = excluded.since, schema = excluded.schema",
            [stream, keep, since, schema],
        )


def forget_files(connection: Connection, stream: str) -> None:
    """A stream that is dropped has no history: another one of its name is another one."""
    _remove(connection, [file.path for file in listed(connection, stream)], 0)
    for table in ("__kept", "__tombstones", "__retried", "__versions", "__written"):
        connection.run(f"DELETE FROM {table} WHERE stream = ?1", [stream])


# lists change


def swap(connection: Connection, old: Collection[str], new: Sequence[File], now: Instant) -> None:
    """Puts files in the place of others that hold the same rows."""
    _check_listed(connection, old)
    _remove(connection, old, now)
    _insert(connection, new)
    _note_written(connection, new, "again")


def expire(connection: Connection, stream: str, old: Collection[str], now: Instant) -> None:
    """Takes whole files off the list: from here on the stream's history begins later."""
    _check_listed(connection, old)
    for path in old:
        connection.run(
            "UPDATE __kept SET since = (SELECT last FROM __files WHERE path = ?2) WHERE stream = ?1 "
            "AND since < (SELECT last FROM __files WHERE path = ?2)",
            [stream, path],
        )
    _remove(connection, old, now)


def forget(connection: Connection, paths: Collection[str]) -> None:
    """Files that were taken off the list are gone."""
    for path in paths:
        connection.run("DELETE FROM __files WHERE path = ?1 AND removed IS NOT NULL", [path])


def erased(connection: Connection, paths: Collection[str], tombstone: int) -> None:
    """Tombstones up to this id have nothing to say of these files any more."""
    for path in paths:
        connection.run("UPDATE __files SET erased = ?2 WHERE path = ?1", [path, tombstone])


def write_tombstone(connection: Connection, stream: str, condition: str, reason: str | None, now: Instant) -> Tombstone:
    """Appends a tombstone for the rows that have come so far."""
    connection.run(
        f'INSERT INTO __tombstones (stream, "commit", condition, reason, at) VALUES (?1, {_LAST}, ?2, ?3, ?4)',
        [stream, condition, reason, now],
    )
    return tombstones(connection, stream)[-1]


def _check_listed(connection: Connection, paths: Collection[str]) -> None:
    for path in paths:
        if not connection.rows("SELECT 1 FROM __files WHERE path = ?1 AND removed IS NULL", [path]).height:
            raise StoreError(f"the file '{path}' is no longer part of the history", hint="read the list again")


def _remove(connection: Connection, paths: Collection[str], now: Instant) -> None:
    for path in paths:
        connection.run(f"UPDATE __files SET removed = {_LAST}, removed_at = ?2 WHERE path = ?1", [path, now])


# read


def listed(connection: Connection, stream: str | None = None) -> list[File]:
    """The history's files in the order of their commits."""
    rule = "removed IS NULL" if stream is None else "removed IS NULL AND stream = ?1"
    return _files(connection, rule, [] if stream is None else [stream])


def removed(connection: Connection, before: Instant, needed_from: int) -> list[File]:
    """The files that were taken off the list before an instant, and before the commit `needed_from`."""
    return _files(connection, "removed_at < ?1 AND removed < ?2", [before, needed_from])


def _files(connection: Connection, rule: str, values: Sequence[object]) -> list[File]:
    sql = f"SELECT {select(_COLUMNS)} FROM __files WHERE {rule} ORDER BY stream, kind, first, last, path"
    return [File(**row) for row in connection.rows(sql, values).iter_rows(named=True)]


def history_sizes(connection: Connection) -> dict[str, HistorySize]:
    """By stream what its history takes."""
    rows = connection.rows(
        "SELECT w.stream, coalesce(sum(CASE WHEN removed IS NULL THEN 1 ELSE 0 END), 0), "
        "coalesce(sum(CASE WHEN removed IS NULL THEN f.bytes ELSE 0 END), 0), "
        "coalesce(sum(CASE WHEN removed IS NULL THEN 0 ELSE f.bytes END), 0), w.bytes, w.again "
        "FROM __written w LEFT JOIN __files f ON f.stream = w.stream GROUP BY w.stream, w.bytes, w.again ORDER BY 1"
    )
    return {stream: HistorySize(*map(int, sizes)) for stream, *sizes in rows.iter_rows()}


def tombstones(connection: Connection, stream: str | None = None) -> list[Tombstone]:
    """The tombstones of a stream, in order, or of all."""
    sql = 'SELECT id, stream, "commit", condition, reason, at FROM __tombstones WHERE stream = coalesce(?1, stream)'
    return [Tombstone(*row) for row in connection.rows(f"{sql} ORDER BY id", [stream]).iter_rows()]


def listing(connection: Connection) -> Listing:
    """All of it at one moment; the caller sees to it that this is one transaction."""
    settings = dict(connection.rows("SELECT name, value FROM __history").iter_rows())
    rows = connection.rows("SELECT stream, keep, since, schema FROM __kept").iter_rows()
    streams = {stream: StreamHistory(keep, since, schema) for stream, keep, since, schema in rows}
    (last,) = connection.rows(f"SELECT {_LAST}").row(0)
    return Listing(
        last, settings.get("home"), settings.get("location"), listed(connection), tombstones(connection), streams
    )
