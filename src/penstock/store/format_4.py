"""The step to format 4, typed commits. Until then, what a commit knew of its epoch or tick was JSON beside its timings.

So were the marks: an object by the sources that views read, with "view:NAME" where a view's own watermark differed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from penstock.model.time import BEGINNING
from penstock.store import files
from penstock.store.audits import AUDITS
from penstock.store.catalog import CATALOG
from penstock.store.connection import Connection
from penstock.store.figures import FIGURE_TABLES, Figures, Intake, write_figures
from penstock.store.file import PastVersions
from penstock.store.generations import GENERATIONS
from penstock.store.marks import MARK_TABLES, MarkRow, put_marks, write_ticks
from penstock.store.tables import COMMITS
from penstock.store.versions import PAST_VERSIONS, VERSIONS, write_past_versions, write_versions

#: The number of commits read at a time.
_BATCH: Final = 20_000
_COMMITS: Final = {
    "number": pl.Int64(), "kind": pl.String(), "stream": pl.String(), "query": pl.String(), "epoch": pl.Int64(),
    "offsets": pl.String(), "now": pl.Int64(), "panes": pl.Int64(), "rows": pl.Int64(), "late_events": pl.Int64(),
    "late_pairs": pl.Int64(), "inputs": pl.Int64(), "late_inputs": pl.Int64(), "behind": pl.Int64(),
    "unit": pl.String(), "limit": pl.Int64(), "taken": pl.Int64(), "timings": pl.String(), "details": pl.String(),
}  # fmt: skip
_EPOCHS: Final = {
    "commit": pl.Int64(), "stream": pl.String(), "query": pl.String(), "epoch": pl.Int64(), "now": pl.Int64(),
    "read_through": pl.Int64(),
}  # fmt: skip
#: Fields of notes that have a column, a table or another name now. The other fields were for people.
_TYPED: Final = {"rows", "stream", "behind", "unit", "limit", "taken", "late", "tables", "stale", "times", "past"}
_SECONDS: Final = ("reduce", "merge")
_VIEW: Final = "view:"


def migrate(connection: Connection) -> None:
    """Moves what commits knew into columns and tables."""
    _complete(connection)
    connection.run("ALTER TABLE __commits RENAME TO __commits_3")
    connection.script((COMMITS, *FIGURE_TABLES))
    if "__marks" in connection.tables():
        connection.run("ALTER TABLE __marks RENAME TO __marks_3")
        connection.script(MARK_TABLES)
        for rows in _batches(connection, "__marks_3", '"commit"', "stream, query, epoch, now, before, after"):
            _move_marks(connection, rows)
        connection.run("DROP TABLE __marks_3")
    else:
        connection.script(MARK_TABLES)
    last: dict[str, tuple[Figures, list[str]]] = {}
    for rows in _batches(connection, "__commits_3", "number", "kind, query, epoch, offsets, now, panes, timings"):
        _move_commits(connection, rows, last)
    for stream, (figures, tables) in last.items():
        write_figures(connection, stream, figures, tables)
    connection.run("DROP TABLE __commits_3")


def _complete(connection: Connection) -> None:
    """Tables and columns that came while the format stayed 3."""
    connection.script((CATALOG, GENERATIONS, AUDITS))
    tables = connection.tables()
    if "__files" not in tables:
        files.create(connection)
    elif "level" not in connection.columns_of("__files"):
        connection.run("ALTER TABLE __files ADD COLUMN level INTEGER NOT NULL DEFAULT 0")
        connection.run("UPDATE __files SET level = 1 WHERE last > first")
    if "__files" in tables and "__written" not in tables:
        connection.run(files.WRITTEN)
        connection.run(
            "INSERT INTO __written SELECT stream, sum(bytes), 0 FROM __files WHERE removed IS NULL GROUP BY stream"
        )
    if "__past_versions" in tables:
        _move_past_versions(connection)
    else:
        connection.script(VERSIONS)
        _begin_versions(connection)


def _move_past_versions(connection: Connection) -> None:
    connection.run("ALTER TABLE __past_versions RENAME TO __past_versions_3")
    connection.run(PAST_VERSIONS)
    sql = 'SELECT view, "commit", through, whole, versions FROM __past_versions_3'
    for view, number, through, whole, versions in connection.rows(sql).rows():
        write_past_versions(connection, PastVersions(view, json.loads(versions), through, bool(whole)), number)
    connection.run("DROP TABLE __past_versions_3")


def _begin_versions(connection: Connection) -> None:
    """The versions of tables that commits had, as far as their notes say."""
    sql = (
        'SELECT c.number, c.timings, g.view FROM __commits c LEFT JOIN __generations g ON g."commit" = c.number AND '
        "c.kind = 'swap' ORDER BY c.number"
    )
    for number, timings, view in connection.rows(sql).rows():
        note = json.loads(timings)
        if "tables" in note and "stream" in note:
            write_versions(connection, note["stream"], note["tables"], number)
        elif "past" in note and view is not None:
            past = note["past"]
            write_past_versions(connection, PastVersions(view, past["tables"], past["through"], past["whole"]), number)


def _batches(connection: Connection, table: str, key: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
    after = -1
    while True:
        sql = f"SELECT {key}, {columns} FROM {table} WHERE {key} > ?1 ORDER BY {key} LIMIT {_BATCH}"
        rows = connection.rows(sql, [after]).rows()
        if not rows:
            return
        yield rows
        after = rows[-1][0]


def _move_commits(
    connection: Connection, rows: list[tuple[Any, ...]], last: dict[str, tuple[Figures, list[str]]]
) -> None:
    """Commits in order; the newest of each stream says which limit and which stale tables it has."""
    moved = []
    for number, kind, query, epoch, offsets, now, panes, timings in rows:
        note = json.loads(timings)
        late, stream = note.get("late", {}), note.get("stream")
        intake = Intake(note.get("unit"), note.get("limit"), note.get("taken"), note.get("behind"))
        if kind == "epoch" and stream is not None:
            last[stream] = Figures(intake=intake, stale=note.get("stale", {})), list(note.get("tables", {}))
        write_ticks(connection, note.get("times", {}), number, now)
        details = {name: value for name, value in note.items() if name not in {*_TYPED, *_SECONDS}}
        moved.append((
            number, kind, stream, query, epoch, offsets, now, panes, note.get("rows"), late.get("events"),
            late.get("pairs"), late.get("inputs"), late.get("late_inputs"), intake.behind, intake.unit, intake.limit,
            intake.taken, json.dumps({name: note[name] for name in _SECONDS if name in note}), json.dumps(details),
        ))  # fmt: skip
    connection.put("__commits", pl.DataFrame(moved, schema=_COMMITS, orient="row"), columns=list(_COMMITS))


def _move_marks(connection: Connection, rows: list[tuple[Any, ...]]) -> None:
    sql = "SELECT number, offsets FROM __commits_3 WHERE kind = 'epoch' AND number >= ?1 AND number <= ?2"
    offsets = dict(connection.rows(sql, [rows[0][0], rows[-1][0]]).iter_rows())
    epochs = [
        (number, stream, query, epoch, now, _read_through(offsets.get(number)))
        for number, stream, query, epoch, now, _, _ in rows
    ]
    connection.put("__epochs", pl.DataFrame(epochs, schema=_EPOCHS, orient="row"), columns=list(_EPOCHS))
    put_marks(connection, [(row[0], mark) for row in rows for mark in _marks(json.loads(row[5]), json.loads(row[6]))])


def _marks(before: dict[str, int], after: dict[str, int]) -> Iterator[MarkRow]:
    for key in dict.fromkeys([*before, *after]):
        if not key.startswith(_VIEW):
            yield MarkRow(key, "", before.get(key, BEGINNING), after.get(key, BEGINNING))
    for key in dict.fromkeys(name for name in [*before, *after] if name.startswith(_VIEW)):
        # Format 4 did not record which streams such a view reads. Without a watermark of its own, it had another's.
        sources = next((name for name in [*before, *after] if not name.startswith(_VIEW)), "")
        began, ended = (times.get(key, times.get(sources, BEGINNING)) for times in (before, after))
        yield MarkRow(sources, key.removeprefix(_VIEW), began, ended)


def _read_through(offsets: str | None) -> int | None:
    """Up to which commit an epoch of a derived stream has read: its offsets say so, those of other streams do not."""
    try:
        lines = [json.loads(line) for line in (offsets or "").splitlines()]
        return min(int(line["commit"]) for line in lines if line.keys() == {"commit", "events"})
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
