"""A store that an earlier version wrote is migrated when an app starts, whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.store import PostgresStore, Reader, SqlStore, StoreError
from penstock.store.block import Head
from penstock.store.connection import Connection
from penstock.store.format import FORMAT, OLDEST
from penstock.store.migrations import MIGRATIONS, Migration
from penstock.store.postgres.connection import PostgresConnection
from penstock.store.sqlite.connection import SqliteConnection
from penstock.store.tables import APPLICATION
from tests.outbox import panes
from tests.store.conftest import ONLY_SQLITE, Home

#: The tables of format 3, as its first version made them.
FORMAT_3 = (
    "CREATE TABLE __meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE __views (name TEXT PRIMARY KEY COLLATE NOCASE, fingerprint TEXT NOT NULL, definition TEXT NOT NULL,
       firing TEXT NOT NULL, columns TEXT NOT NULL, watermark INTEGER, closed INTEGER) WITHOUT ROWID""",
    """CREATE TABLE __commits (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, query TEXT, epoch INTEGER, offsets TEXT,
       now INTEGER NOT NULL, panes INTEGER NOT NULL, timings TEXT NOT NULL)""",
    """CREATE TABLE __progress (query TEXT PRIMARY KEY, "commit" INTEGER NOT NULL, epoch INTEGER NOT NULL,
       offsets TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE __trackers (stream TEXT PRIMARY KEY, snapshot TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE __counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE __panes (id INTEGER PRIMARY KEY, "commit" INTEGER NOT NULL, ordinal INTEGER NOT NULL,
       view TEXT NOT NULL, key TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, "values" TEXT NOT NULL,
       kind TEXT NOT NULL, timing TEXT NOT NULL, "index" INTEGER NOT NULL, final INTEGER NOT NULL)""",
    "CREATE TABLE __sinks (sink TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE __refused ("commit" INTEGER NOT NULL, kind TEXT NOT NULL, stream TEXT NOT NULL, view TEXT,
       partition INTEGER, "offset" INTEGER, at INTEGER, reason TEXT, row TEXT, missed INTEGER, windows INTEGER)""",
    "INSERT INTO __meta VALUES ('token', 4), ('panes', 0)",
)
#: Those that came later, while the format stayed 3.
HISTORY = (
    """CREATE TABLE __files (path TEXT PRIMARY KEY, stream TEXT NOT NULL, kind TEXT NOT NULL,
       first INTEGER NOT NULL, last INTEGER NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
       checksum TEXT NOT NULL, oldest INTEGER, newest INTEGER, erased INTEGER NOT NULL, query TEXT, epoch INTEGER,
       removed INTEGER, removed_at INTEGER) WITHOUT ROWID""",
    """CREATE TABLE __marks ("commit" INTEGER PRIMARY KEY, stream TEXT NOT NULL, query TEXT NOT NULL,
       epoch INTEGER NOT NULL, now INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL)""",
    """CREATE TABLE __kept (stream TEXT PRIMARY KEY, keep TEXT NOT NULL, since INTEGER,
       schema TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE __tombstones (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL,
       "commit" INTEGER NOT NULL, condition TEXT NOT NULL, reason TEXT, at INTEGER NOT NULL)""",
    """CREATE TABLE __retried (stream TEXT NOT NULL, "commit" INTEGER NOT NULL,
       partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, by INTEGER NOT NULL,
       PRIMARY KEY (stream, "commit", partition, "offset")) WITHOUT ROWID""",
    "CREATE TABLE __master (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "INSERT INTO __master VALUES ('home', 'abc')",
    "INSERT INTO __kept VALUES ('s', 'all', 0, 'k string')",
    """INSERT INTO __files VALUES ('a', 's', 'events', 1, 1, 5, 50, '', NULL, NULL, 0, 'q', 0, NULL, NULL),
       ('b', 's', 'events', 2, 9, 7, 70, '', NULL, NULL, 0, NULL, NULL, NULL, NULL)""",
)


def written(home: Home, statements: Iterable[str] = (), version: int = 3) -> None:
    """Writes a store of an earlier format."""
    store = home.store()
    connection: Connection
    if isinstance(store, PostgresStore):
        connection = PostgresConnection(store.address, writes=True)
        for schema in (store.address.own, store.address.people):
            connection.run(f'CREATE SCHEMA "{schema}"')
        connection.script(FORMAT_3)
        connection.run("ALTER TABLE __refused ADD COLUMN rowid BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
        connection.run(f"INSERT INTO __meta VALUES ('writes', 0), ('format', {version})")
        (home.directory / "store.url").write_text(f"{store.address.shown}\n")
    else:
        connection = SqliteConnection(home.directory / "store.db", writes=True)
        connection.run(f"PRAGMA application_id = {APPLICATION}")
        connection.run(f"PRAGMA user_version = {version}")
        connection.script(FORMAT_3)
    connection.script(statements)
    connection.commit()
    connection.close()


@pytest.fixture
def migrated(home: Home, request: pytest.FixtureRequest):
    """Migrates a store of format 3 with these rows."""

    def migrate(*statements: str) -> SqlStore:
        written(home, statements)
        store = home.store()
        request.addfinalizer(store.close)
        store.lock()
        return store

    return migrate


def test_a_store_without_a_history_gets_its_tables(migrated):
    store = migrated()
    assert store.token == 5
    assert store.listing().files == []
    assert store.catalog() == []
    assert store.last() is None


def test_files_are_listed_as_they_were_and_get_a_level(migrated):
    store = migrated(*HISTORY)
    assert [(file.path, file.first, file.last, file.level) for file in store.listing().files] == [
        ("a", 1, 1, 0),
        ("b", 2, 9, 1),
    ]
    assert store.listing().home == "abc"
    assert store.history_sizes()["s"].written == 120


def test_panes_become_blocks_and_keep_their_ids(migrated):
    pane = """'{"k":"a"}', 0, 10000000, '{"n":1}', 'insert', 'early', 0, 0"""
    final = """'{}', 0, 10000000, '{"x":"NaN"}', 'retract', 'on time', 1, 1"""
    store = migrated(
        f"INSERT INTO __panes VALUES (3, 2, 1, 'v', {pane}), (4, 2, 2, 'v', {final}), (5, 2, 3, 'w', {pane}), "
        f"(7, 3, 1, 'v', {pane}), (9, 3, 3, 'v', {pane})",
        "UPDATE __meta SET value = 9 WHERE name = 'panes'",
        "INSERT INTO __sinks VALUES ('out', 4)",
    )
    assert store.heads("v", 0, 9) == [Head(3, 4, 2), Head(7, 7, 3), Head(9, 9, 3)]
    assert store.newest_blocks(0) == {"v": 9, "w": 5}
    assert store.position("out") == 4
    assert panes(store).select("id", "commit", "view", "key", "values", "kind", "timing", "index", "final").rows() == [
        (3, 2, "v", '{"k":"a"}', '{"n":1}', "insert", "early", 0, False),
        (4, 2, "v", "{}", '{"x":"NaN"}', "retract", "on time", 1, True),
        (5, 2, "w", '{"k":"a"}', '{"n":1}', "insert", "early", 0, False),
        (7, 3, "v", '{"k":"a"}', '{"n":1}', "insert", "early", 0, False),
        (9, 3, "v", '{"k":"a"}', '{"n":1}', "insert", "early", 0, False),
    ]
    assert store.trim_outbox(6) == 3
    assert panes(store)["id"].to_list() == [7, 9]


def test_whoever_only_reads_says_what_to_do(home: Home):
    written(home)
    with pytest.raises(StoreError, match="was written by an earlier version") as error:
        home.reader().last()
    assert error.value.hint is not None
    assert "start the app with this version" in error.value.hint


@pytest.mark.parametrize("version", [OLDEST - 1, FORMAT + 1])
def test_a_store_that_is_too_old_or_too_new_is_refused_and_left_alone(home: Home, version: int):
    written(home, version=version)
    for _ in range(2):
        with pytest.raises(StoreError, match=f"has format {version}"):
            home.store().lock()
    assert not list(home.directory.glob("*.format-*"))


@ONLY_SQLITE
def test_a_copy_of_a_store_that_is_migrated_lies_beside_it(home: Home, migrated, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "penstock.store"):
        migrated("INSERT INTO __counters VALUES ('s.events', 7)").close()
    backup = home.directory / "store.db.format-3"
    assert f"from format 3 to {FORMAT}; a copy of it is '{backup}'" in caplog.text
    (home.directory / "store.db").unlink()
    backup.rename(home.directory / "store.db")
    again = home.store()
    again.lock()
    assert again.counters() == {"s.events": 7}
    again.close()


def test_a_migration_that_fails_changes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch):
    written(home, HISTORY)

    def fail(connection: Any) -> None:
        raise StoreError("no room")

    monkeypatch.setattr("penstock.store.migrations.MIGRATIONS", (*MIGRATIONS, Migration(FORMAT + 1, fail)))
    with pytest.raises(StoreError, match="no room"):
        home.store().lock()
    with pytest.raises(StoreError, match="earlier version"):
        Reader(home.directory).last()
    monkeypatch.undo()
    store = home.store()
    store.lock()
    assert len(store.listing().files) == 2
    store.close()


def test_every_format_has_a_step_in_order():
    formats = [migration.format for migration in MIGRATIONS]
    assert formats == list(range(formats[0], FORMAT + 1))


NOTES = (
    # A view `a` and a derived stream `d` read `s`; `b` is new and has a watermark of its own.
    """INSERT INTO __marks VALUES (1, 's', 'q', 0, 100, '{"s": 5}', '{"s": 9}'),
       (3, 's', 'q', 1, 300, '{"s": 9}', '{"s": 20, "view:b": 15}'), (4, 'd', 'p', 0, 400, '{}', '{}')""",
    """INSERT INTO __commits VALUES (1, 'epoch', 'q', 0, '{"t":{"0":5}}', 100, 0, '{"rows": 3, "reduce": 0.5,
       "merge": 0.25, "stream": "s", "unit": "events", "limit": 70, "taken": 3, "behind": 2, "tables": {"users": 1},
       "late": {"events": 1, "pairs": 2}}'),
       (2, 'tick', NULL, NULL, NULL, 200, 0, '{"times": {"d": 12}}'),
       (3, 'epoch', 'q', 1, '{"t":{"0":9}}', 300, 4, '{"rows": 4, "reduce": 0.5, "merge": 0.5, "stream": "s",
       "unit": "events", "limit": 80, "tables": {"users": 2}, "stale": {"users": "no file"}, "late": {"events": 0,
       "pairs": 0}}'),
       (4, 'epoch', 'p', 0, '{"commit": 3, "events": 7}', 400, 0, '{"rows": 1, "reduce": 0.1, "merge": 0.1,
       "stream": "d", "rounds": 6, "late": {"events": 0, "pairs": 1, "inputs": 7, "late_inputs": 1}}'),
       (5, 'tick', NULL, NULL, NULL, 500, 0, '{}')""",
)


def test_what_commits_said_in_json_is_in_columns(migrated):
    store = migrated(*HISTORY, *NOTES)
    columns = 'number, stream, rows, late_events, late_pairs, inputs, late_inputs, behind, unit, "limit", taken'
    assert store.query(f"SELECT {columns} FROM __commits ORDER BY number").rows() == [
        (1, "s", 3, 1, 2, None, None, 2, "events", 70, 3),
        (2, None, None, None, None, None, None, None, None, None, None),
        (3, "s", 4, 0, 0, None, None, None, "events", 80, None),
        (4, "d", 1, 0, 1, 7, 1, None, None, None, None),
        (5, None, None, None, None, None, None, None, None, None, None),
    ]
    assert store.query("SELECT timings, details FROM __commits WHERE number = 4").row(0) == (
        '{"reduce": 0.1, "merge": 0.1}',
        '{"rounds": 6}',
    )
    assert store.query("SELECT * FROM __limits").rows() == [("s", "events", 80)]
    assert store.query("SELECT * FROM __stale").rows() == [("s", "users", "no file")]
    last = store.last()
    assert last is not None
    assert (last.number, last.kind, last.stream) == (5, "tick", None)


def test_marks_and_ticks_are_rows(migrated):
    store = migrated(*HISTORY, *NOTES)
    assert store.times_of("a", ["s"], 0, 9).rows() == [(1, 100, 5, 9), (3, 300, 9, 20)]
    assert store.times_of("b", ["s"], 0, 9).rows() == [(1, 100, 5, 9), (3, 300, 9, 15)]
    assert store.ticks_of("d", 0, 9).rows() == [(2, 200, 12, 12)]
    assert store.last_mark("d", ["s"]) == 20
    epochs = store.query('SELECT "commit", stream, epoch, read_through FROM __epochs ORDER BY 1').rows()
    assert epochs == [(1, "s", 0, None), (3, "s", 1, None), (4, "d", 0, 3)]


def test_versions_of_tables_begin_with_what_commits_said(migrated):
    store = migrated(*HISTORY, *NOTES)
    assert store.query('SELECT stream, "table", "commit", version FROM __versions ORDER BY 3').rows() == [
        ("s", "users", 1, 1),
        ("s", "users", 3, 2),
    ]


def test_versions_of_a_run_from_the_past_are_rows(migrated):
    store = migrated(
        """CREATE TABLE __versions (stream TEXT NOT NULL, "table" TEXT NOT NULL, "commit" INTEGER NOT NULL,
           version INTEGER, PRIMARY KEY (stream, "table", "commit")) WITHOUT ROWID""",
        """CREATE TABLE __past_versions (view TEXT PRIMARY KEY, "commit" INTEGER NOT NULL,
           through INTEGER NOT NULL, whole INTEGER NOT NULL, versions TEXT NOT NULL) WITHOUT ROWID""",
        """INSERT INTO __past_versions VALUES ('v', 7, 6, 1, '{"users": 2, "shops": 3}')""",
    )
    assert store.query('SELECT * FROM __past_versions ORDER BY "table"').rows() == [
        ("v", "shops", 7, 6, 1, 3),
        ("v", "users", 7, 6, 1, 2),
    ]
