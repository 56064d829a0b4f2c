"""Others read while the app writes; nobody writes by reading; what is not a store, or a newer one, is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.kernel.plan import Plan
from penstock.store import Commit, Reader, SqliteStore, SqlStore, StoreError
from tests.store.conftest import NOON, ONLY_SQLITE, VIEW, Home, change, contents


def elsewhere(code: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs Python in another process. Never sqlite3 in this one: two copies of SQLite undo each other's locks."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def add(store: SqlStore, times: int = 1) -> None:
    for _ in range(times):
        made = change(store, "v", *((key, 1, 1) for key in "abcde"))
        store.commit(Commit(kind="tick", now=NOON, changes={"v": made}))


@ONLY_SQLITE
def test_any_sqlite_client_reads_whole_commits_while_the_app_writes(opened, tmp_path: Path):
    store = opened(v=VIEW)
    add(store)
    code = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1])
        print("ready", flush=True)
        seen = set()
        while max(seen, default=0) < 60:
            counts = {n for n, in connection.execute("SELECT n FROM v")}
            assert len(counts) == 1, counts
            seen |= counts
        print(len(seen))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "store.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        add(store, 59)
        out, errors = other.communicate(timeout=60)
    assert (other.returncode, errors) == (0, "")
    assert int(out) >= 1


def test_a_reader_needs_no_lock_and_sees_each_commit(opened, home: Home):
    store, reader = opened(v=VIEW), home.reader()
    assert reader.views() == {"v": repr(VIEW)}
    for number in (1, 2):
        add(store)
        assert reader.last().number == number
        assert reader.query("SELECT n FROM v WHERE k = ?1", ["a"]).item() == number
    reader.close()


def test_many_threads_ask_while_one_commits(opened):
    store = opened(v=VIEW)
    add(store)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(40):
                assert store.query("SELECT DISTINCT n FROM v").height == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    add(store, 30)
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM __commits",
        "ATTACH 'x.db' AS x",
        "PRAGMA query_only = 0",
        "DROP VIEW v",
        "CREATE TEMP TABLE x (a)",
        "",
    ],
)
def test_only_questions_are_answered(opened, sql):
    store = opened(v=VIEW)
    with pytest.raises(StoreError, match="not a query"):
        store.query(sql)


def test_a_question_cannot_write(opened, home: Home):
    store = opened(v=VIEW)
    add(store)
    with pytest.raises(StoreError, match=r"cannot be written|refused a statement"):
        store.query("WITH x AS (DELETE FROM __commits RETURNING 1) SELECT * FROM x")
    with pytest.raises(StoreError, match=r"cannot be written|refused a statement"):
        store.query("WITH x AS (SELECT 1) DELETE FROM __commits")
    for tail in ("DELETE FROM __commits", f"ATTACH '{home.directory}/other.db' AS other"):
        with suppress(StoreError):  # SQLite takes the first statement, PostgreSQL neither
            assert store.query(f"SELECT 1; {tail}").item() == 1
    assert store.query("-- how many?\nSELECT count(*) FROM __commits;").item() == 1
    assert not (home.directory / "other.db").exists()


def test_a_wrong_question_says_what_the_database_says_and_the_next_one_works(opened):
    store = opened(v=VIEW)
    with pytest.raises(StoreError, match=r'no such column: nn|column "nn" does not exist'):
        store.query("SELECT nn FROM v")
    assert contents(store) == []


@ONLY_SQLITE
def test_a_column_of_numbers_with_nan_among_them_is_exact(opened):
    store = opened()
    found = store.query("SELECT * FROM (VALUES (0.1234567890123, 'NaN'), ('NaN', 'x'), (NULL, 'y')) ORDER BY 2")
    assert str(found["column1"].to_list()) == "[0.1234567890123, nan, None]"
    assert found["column2"].to_list() == ["NaN", "x", "y"]


# files that cannot be used


def test_a_missing_store_says_so(tmp_path: Path):
    with pytest.raises(StoreError, match="there is no store in"):
        Reader(tmp_path).views()


def test_a_directory_that_cannot_be_written_says_so():
    with pytest.raises(StoreError, match="cannot make the directory"):
        SqliteStore.open("/proc/penstock/store")
    with pytest.raises(StoreError, match="write access"):
        SqliteStore.open("/proc").lock()


def test_a_file_that_is_no_database_says_so(tmp_path: Path):
    (tmp_path / "store.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    for use in (SqliteStore.open(tmp_path).lock, Reader(tmp_path).views):
        with pytest.raises(StoreError, match="damaged, or no SQLite file"):
            use()


@ONLY_SQLITE
def test_a_damaged_file_says_so(opened, tmp_path: Path):
    store = opened(v=VIEW)
    add(store)
    store.close()
    data = bytearray((tmp_path / "store.db").read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    (tmp_path / "store.db").write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        opened(v=VIEW)


def test_another_program_s_database_is_left_alone(tmp_path: Path):
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('CREATE TABLE mine (a)'); c.commit()"
    assert elsewhere(code, tmp_path / "store.db").returncode == 0
    with pytest.raises(StoreError, match="is not a store of Penstock"):
        SqliteStore.open(tmp_path).lock()
    code = (
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT name FROM sqlite_schema').fetchall())"
    )
    assert elsewhere(code, tmp_path / "store.db").stdout == "[('mine',)]\n"


@ONLY_SQLITE
def test_a_store_of_a_newer_format_says_so(opened, tmp_path: Path):
    opened(v=VIEW).close()
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 99')"
    assert elsewhere(code, tmp_path / "store.db").returncode == 0
    for use in (SqliteStore.open(tmp_path).lock, Reader(tmp_path).views):
        with pytest.raises(StoreError, match="has format 99"):
            use()


@ONLY_SQLITE
def test_a_database_that_another_program_writes_to_says_so(opened, tmp_path: Path):
    store = opened(v=VIEW)
    code = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        print("ready", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "store.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        store._writer.run("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreError, match="locked by another program"):
            add(store)
        other.communicate("")
    add(store)
    assert store.last().number == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_reader_that_may_not_write_reads_a_store_at_rest(tmp_path: Path):
    code = """
        import os, sys
        from penstock.store import Reader
        Reader(sys.argv[1]).query("SELECT 1")  # loads what the other user may not
        os.setuid(65534)
        print(Reader(sys.argv[2]).query("SELECT n FROM v").height)
    """
    with tempfile.TemporaryDirectory() as directory:
        for place in (tmp_path, Path(directory)):
            store = SqliteStore.open(place)
            store.lock()
            store.prepare({"v": Plan(VIEW)})
            add(store)
            store.close()
        Path(directory).chmod(0o755)
        other = elsewhere(code, tmp_path, directory)
    assert (other.stdout, other.stderr) == ("5\n", "")
