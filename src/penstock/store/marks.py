"""Marks: what the epochs of a stream decided by time, for views and derived streams that read it.

Readers of the same streams mostly have the same watermark. So a mark has one row for all readers of these streams, and
a row of its own for each reader that differs, as a new view does. Ticks tell derived streams that time has passed.

>>> new, old = ReaderTime(("a", "b"), 5), ReaderTime(("b", "a"), 9)
>>> mark = Mark.of("a", {"old": old}, {"old": old, "new": new})
>>> [(row.sources, row.reader, row.after) for row in mark.rows]
[('a,b', '', 9), ('a,b', 'new', 5)]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.model.time import BEGINNING, Instant

if TYPE_CHECKING:
    from penstock.store.connection import Connection

MARK_TABLES: Final = (
    """CREATE TABLE __epochs (stream TEXT NOT NULL, "commit" INTEGER NOT NULL, query TEXT NOT NULL,
       epoch INTEGER NOT NULL, now INTEGER NOT NULL, read_through INTEGER, PRIMARY KEY (stream, "commit"))
       WITHOUT ROWID""",
    'CREATE INDEX __epochs_by_commit ON __epochs ("commit")',
    """CREATE TABLE __marks ("commit" INTEGER NOT NULL, sources TEXT NOT NULL, reader TEXT NOT NULL,
       before INTEGER NOT NULL, after INTEGER NOT NULL, PRIMARY KEY ("commit", sources, reader)) WITHOUT ROWID""",
    """CREATE TABLE __ticks (stream TEXT NOT NULL, "commit" INTEGER NOT NULL, now INTEGER NOT NULL,
       watermark INTEGER NOT NULL, PRIMARY KEY (stream, "commit")) WITHOUT ROWID""",
)
#: The watermarks after the newest epochs, for people: when, whose, and the watermark.
NEWEST: Final = """SELECT e.now, CASE WHEN m.reader = '' THEN m.sources ELSE m.reader END, m.after
    FROM (SELECT DISTINCT "commit", now FROM __epochs ORDER BY "commit" DESC LIMIT {limit}) e
    JOIN __marks m ON m."commit" = e."commit" ORDER BY e."commit" DESC"""

#: The query of epochs that operators have made.
MADE: Final = "dataflow"
_ROWS: Final = {
    "commit": pl.Int64(), "sources": pl.String(), "reader": pl.String(), "before": pl.Int64(), "after": pl.Int64()
}  # fmt: skip
_TIMES: Final = {"commit": pl.Int64(), "now": pl.Int64(), "before": pl.Int64(), "after": pl.Int64()}


@dataclass(frozen=True)
class ReaderTime:
    """The watermark of a view or a derived stream, and the streams that it reads."""

    sources: tuple[str, ...]
    watermark: Instant


@dataclass(frozen=True)
class MarkRow:
    """The watermarks before and after an epoch: of all readers of these sources, or of the one that is named."""

    sources: str
    reader: str
    before: Instant
    after: Instant


@dataclass(frozen=True)
class Mark:
    """What an epoch of a stream decided by time: the watermarks in force when it began, and after it."""

    stream: str
    rows: tuple[MarkRow, ...] = ()

    @classmethod
    def of(cls, stream: str, before: Mapping[str, ReaderTime], after: Mapping[str, ReaderTime]) -> Mark:
        """From the times of the stream's readers, by their names."""
        times: dict[tuple[str, str], tuple[Instant, Instant]] = {}
        for name in dict.fromkeys([*before, *after]):
            key = _key((after if name in after else before)[name].sources)
            times[key, name] = _watermark(before, name), _watermark(after, name)
        shared: dict[str, tuple[Instant, Instant]] = {}
        for (key, _), (began, ended) in times.items():
            least = shared.get(key, (BEGINNING, BEGINNING))
            shared[key] = max(began, least[0]), max(ended, least[1])
        rows = [MarkRow(key, "", *pair) for key, pair in shared.items()]
        rows += [MarkRow(key, name, *pair) for (key, name), pair in times.items() if pair != shared[key]]
        return cls(stream, tuple(rows))


def _key(sources: Collection[str]) -> str:
    return ",".join(sorted(sources))


def _watermark(times: Mapping[str, ReaderTime], name: str) -> Instant:
    return times[name].watermark if name in times else BEGINNING


def several_streams(connection: Connection) -> None:
    """The step to format 7: a commit may have epochs of several streams. Until then it had one."""
    connection.run("ALTER TABLE __epochs RENAME TO __epochs_6")
    connection.script(("DROP INDEX IF EXISTS __epochs_of", "DROP INDEX IF EXISTS __epochs_by_commit", *MARK_TABLES[:2]))
    names = 'stream, "commit", query, epoch, now, read_through'
    connection.run(f"INSERT INTO __epochs ({names}) SELECT {names} FROM __epochs_6")
    connection.run("DROP TABLE __epochs_6")


# written by a commit


def write_mark(
    connection: Connection, mark: Mark, number: int, query: str, epoch: int, now: Instant, read_through: int | None
) -> None:
    """Records an epoch and what it decided. A derived stream has read the commits of its inputs `read_through` one."""
    sql = "INSERT INTO __epochs VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    connection.run(sql, [mark.stream, number, query, epoch, now, read_through])
    put_marks(connection, [(number, row) for row in mark.rows])


def write_made_marks(
    connection: Connection, marks: Collection[Mark], mark: Mark | None, number: int, now: Instant
) -> None:
    """Records the same for streams that operators have made rows of in a commit; `mark` is that of its source."""
    written = set() if mark is None else {(row.sources, row.reader) for row in mark.rows}
    for one in marks:
        write_mark(
            connection, replace(one, rows=tuple(row for row in one.rows if (row.sources, row.reader) not in written)),
            number, MADE, number, now, None,
        )  # fmt: skip
        written |= {(row.sources, row.reader) for row in one.rows}


def put_marks(connection: Connection, rows: Collection[tuple[int, MarkRow]]) -> None:
    """Records rows of marks, by commit."""
    data = [(number, row.sources, row.reader, row.before, row.after) for number, row in rows]
    connection.put("__marks", pl.DataFrame(data, schema=_ROWS, orient="row"), columns=list(_ROWS))


def write_ticks(connection: Connection, passed: Mapping[str, Instant], number: int, now: Instant) -> None:
    """A commit tells derived streams up to where time has passed."""
    for stream, watermark in passed.items():
        connection.run("INSERT INTO __ticks VALUES (?1, ?2, ?3, ?4)", [stream, number, now, watermark])


def trim_marks(connection: Connection, through: int, streams: Collection[str]) -> None:
    """Forgets old epochs, but not those of events that the history holds, nor the last one of a stream."""
    kept_since = dict(connection.rows("SELECT stream, since FROM __kept").iter_rows())
    for stream in dict.fromkeys([*kept_since, *streams]):
        since = kept_since.get(stream)
        bound = through if since is None else min(through, since)
        old = (
            'SELECT "commit" FROM __epochs WHERE stream = ?1 AND "commit" <= ?2 '
            'AND "commit" < (SELECT max("commit") FROM __epochs WHERE stream = ?1)'
        )
        connection.run(f'DELETE FROM __epochs WHERE stream = ?1 AND "commit" IN ({old})', [stream, bound])
    connection.run(
        'DELETE FROM __marks WHERE "commit" <= ?1 AND "commit" NOT IN (SELECT "commit" FROM __epochs)', [through]
    )
    connection.run(
        'DELETE FROM __ticks WHERE "commit" <= ?1 AND "commit" <= coalesce((SELECT e.read_through FROM __epochs e '
        'WHERE e.stream = __ticks.stream ORDER BY e."commit" DESC LIMIT 1), 0) '
        'AND "commit" < (SELECT max(n."commit") FROM __ticks n WHERE n.stream = __ticks.stream)',
        [through],
    )


def forget_marks(connection: Connection, stream: str) -> None:
    """A stream is dropped."""
    for table in ("__epochs", "__ticks"):
        connection.run(f"DELETE FROM {table} WHERE stream = ?1", [stream])
    connection.run('DELETE FROM __marks WHERE "commit" NOT IN (SELECT "commit" FROM __epochs)')


# read


def times_of(connection: Connection, reader: str, sources: Collection[str], after: int, through: int) -> pl.DataFrame:
    """The epochs of these streams as a reader saw them: `commit`, `now`, and the watermark `before` and `after`."""
    names = ", ".join(f"?{number}" for number in range(5, len(sources) + 5)) or "NULL"
    rows = connection.rows(
        f'SELECT DISTINCT e."commit", e.now, coalesce(o.before, s.before, {BEGINNING}) AS before, '
        f"coalesce(o.after, s.after, {BEGINNING}) AS after FROM __epochs e "
        'LEFT JOIN __marks o ON o."commit" = e."commit" AND o.reader = ?1 '
        'LEFT JOIN __marks s ON s."commit" = e."commit" AND s.sources = ?2 AND s.reader = \'\' '
        f'WHERE e."commit" > ?3 AND e."commit" <= ?4 AND e.stream IN ({names}) ORDER BY e."commit"',
        [reader, _key(sources), after, through, *sources],
    )
    return rows.cast(pl.Int64) if rows.height else pl.DataFrame(schema=_TIMES)


def ticks_of(connection: Connection, stream: str, after: int, through: int) -> pl.DataFrame:
    """The ticks that told a derived stream the time, in the same form."""
    rows = connection.rows(
        'SELECT "commit", now, watermark AS before, watermark AS after FROM __ticks '
        'WHERE stream = ?1 AND "commit" > ?2 AND "commit" <= ?3 ORDER BY "commit"',
        [stream, after, through],
    )
    return rows.cast(pl.Int64) if rows.height else pl.DataFrame(schema=_TIMES)


def last_mark(connection: Connection, reader: str, sources: Collection[str]) -> Instant:
    """Up to where time had passed for a derived stream when the last commit told it."""
    names = ", ".join(f"?{number + 1}" for number in range(len(sources))) or "NULL"
    sql = f'SELECT coalesce(max("commit"), 0) FROM __epochs WHERE stream IN ({names})'
    last = int(connection.rows(sql, list(sources)).item())
    marks = [times_of(connection, reader, sources, last - 1, last)]
    sql = 'SELECT coalesce(max("commit"), 0) FROM __ticks WHERE stream = ?1'
    last = int(connection.rows(sql, [reader]).item())
    marks.append(ticks_of(connection, reader, last - 1, last))
    return max((int(mark) for frame in marks for mark in frame["after"]), default=BEGINNING)
