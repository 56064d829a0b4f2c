"""Which versions of tables the commits had: a row where a version changes, kept as long as the events of its stream.

A commit that is forgotten (`Keep.commits`) leaves here what an audit needs: the version of each table that the rows of
an epoch were joined with, and those of the last run from the past of each view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.store.connection import Connection
from penstock.store.file import PastVersions

VERSIONS: Final = (
    """CREATE TABLE IF NOT EXISTS __versions (stream TEXT NOT NULL, "table" TEXT NOT NULL, "commit" INTEGER NOT NULL,
       version INTEGER, PRIMARY KEY (stream, "table", "commit")) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS __past_versions (view TEXT PRIMARY KEY, "commit" INTEGER NOT NULL,
       through INTEGER NOT NULL, whole INTEGER NOT NULL, versions TEXT NOT NULL) WITHOUT ROWID""",
)


def write_versions(connection: Connection, stream: str, versions: Mapping[str, int], number: int) -> None:
    """An epoch of a stream had these versions; a table that is no longer joined has none from here on."""
    rows = connection.rows(
        'SELECT "table", version FROM __versions v WHERE stream = ?1 AND "commit" = (SELECT max("commit") '
        'FROM __versions n WHERE n.stream = v.stream AND n."table" = v."table")',
        [stream],
    )
    known = dict(rows.iter_rows())
    for table in dict.fromkeys([*known, *versions]):
        if known.get(table) != versions.get(table):
            sql = "INSERT INTO __versions VALUES (?1, ?2, ?3, ?4)"
            connection.run(sql, [stream, table, number, versions.get(table)])


def write_past_versions(connection: Connection, past: PastVersions, number: int) -> None:
    """A commit has swapped in what a run from the past made."""
    connection.run(
        "INSERT INTO __past_versions VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (view) DO UPDATE SET "
        '"commit" = excluded."commit", through = excluded.through, whole = excluded.whole, '
        "versions = excluded.versions",
        [past.view, number, past.through, int(past.whole), json.dumps(dict(past.versions))],
    )


def trim_versions(connection: Connection, through: int) -> None:
    """Forgets what old commits had, but not those whose events the history holds."""
    connection.run(
        "DELETE FROM __versions WHERE EXISTS (SELECT 1 FROM __versions n WHERE n.stream = __versions.stream "
        'AND n."table" = __versions."table" AND n."commit" > __versions."commit" AND n."commit" <= '
        "coalesce((SELECT since FROM __kept WHERE __kept.stream = __versions.stream), ?1))",
        [through],
    )


def prepare_versions(connection: Connection) -> None:
    """The tables. In a store of before, they begin with what its commits still say."""
    if "__versions" in connection.tables():
        return
    connection.script(VERSIONS)
    if "__commits" not in connection.tables():
        return
    found = connection.rows(
        'SELECT c.number, c.timings, g.view FROM __commits c LEFT JOIN __generations g ON g."commit" = c.number AND '
        "c.kind = 'swap' WHERE c.timings LIKE ?1 ORDER BY c.number",
        ['%"tables"%'],
    )
    _take_over(connection, found.iter_rows())


def _take_over(connection: Connection, rows: Iterable[tuple[int, str, str | None]]) -> None:
    for number, timings, view in rows:
        note = json.loads(timings)
        if "tables" in note and "stream" in note:
            write_versions(connection, note["stream"], note["tables"], number)
        elif "past" in note and view is not None:
            past = note["past"]
            write_past_versions(connection, PastVersions(view, past["tables"], past["through"], past["whole"]), number)
