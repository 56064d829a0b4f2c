"""Which versions of tables the commits had: a row where a version changes, kept as long as the events of its stream.

A commit that is forgotten (`Keep.commits`) leaves here what an audit needs: the version of each table that the rows of
an epoch were joined with, and those of the last run from the past of each view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.store.connection import Connection
from penstock.store.file import PastVersions

PAST_VERSIONS: Final = """CREATE TABLE __past_versions (view TEXT NOT NULL, "table" TEXT NOT NULL,
    "commit" INTEGER NOT NULL, through INTEGER NOT NULL, whole INTEGER NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (view, "table")) WITHOUT ROWID"""
VERSIONS: Final = (
    """CREATE TABLE __versions (stream TEXT NOT NULL, "table" TEXT NOT NULL, "commit" INTEGER NOT NULL,
       version INTEGER, PRIMARY KEY (stream, "table", "commit")) WITHOUT ROWID""",
    PAST_VERSIONS,
)
#: The tables that streams join now, oldest change first: name, version, and why it is stale, where it is.
TABLES_NOW: Final = """SELECT v."table", v.version, s.reason FROM __versions v
    LEFT JOIN __stale s ON s.stream = v.stream AND s."table" = v."table"
    WHERE v.version IS NOT NULL AND v."commit" = (SELECT max(n."commit") FROM __versions n
    WHERE n.stream = v.stream AND n."table" = v."table") ORDER BY v."commit\""""


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
    connection.run("DELETE FROM __past_versions WHERE view = ?1", [past.view])
    for table, version in past.versions.items():
        sql = "INSERT INTO __past_versions VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        connection.run(sql, [past.view, table, number, past.through, int(past.whole), version])


def trim_versions(connection: Connection, through: int) -> None:
    """Forgets what old commits had, but not those whose events the history holds."""
    connection.run(
        "DELETE FROM __versions WHERE EXISTS (SELECT 1 FROM __versions n WHERE n.stream = __versions.stream "
        'AND n."table" = __versions."table" AND n."commit" > __versions."commit" AND n."commit" <= '
        "coalesce((SELECT since FROM __kept WHERE __kept.stream = __versions.stream), ?1))",
        [through],
    )
