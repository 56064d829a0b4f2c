"""A damaged store is noticed by those who only ask: status, query and views do not answer from it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.store import Reader
from penstock.store.damage import Damaged, check_undamaged
from tests.history.events.support import App, rows

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some thirty pages, without a log."""
    directory = tmp_path_factory.mktemp("whole")
    app = App(directory)
    for number in range(20):
        events = [(number * 10 + n, f"user {n}", (number * 7 + n) % 60) for n in range(10)]
        app.epoch(rows(*events, first=number * 10))
    app.close()
    return directory


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """The file of a copy of it, to be damaged."""
    shutil.copytree(whole, tmp_path / "state")
    return tmp_path / "state" / "store.db"


def commands(store: Path) -> list[list[str]]:
    asked = ["status"], ["views"], ["query", "SELECT count(*) AS n FROM by_user"], ["history", "status"]
    return [[*words, "--dir", str(store.parent)] for words in asked]


def assert_noticed(store: Path) -> None:
    for words in commands(store):
        found = CliRunner().invoke(cli, words)
        assert found.exit_code == 1, (words, found.output)
        assert "is damaged" in found.output, (words, found.output)


def test_a_sound_store_is_answered_from(store: Path):
    """Leaves the store alone: it is answered from."""
    for words in commands(store):
        assert CliRunner().invoke(cli, words).exit_code == 0


@pytest.mark.parametrize("left", [0.5, 0.99])
def test_a_truncated_store_is_noticed(store: Path, left: float):
    """Cuts the store off, as a full disk does: status, views and query say that it is damaged."""
    size = int(store.stat().st_size * left) // 512 * 512
    with store.open("r+b") as file:
        file.truncate(size)
    assert_noticed(store)


def test_every_zeroed_page_is_noticed(store: Path):
    """Zeroes any one page of the store: it is noticed, whichever page it is."""
    data = store.read_bytes()
    for page in range(len(data) // PAGE):
        store.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])
        with pytest.raises(Damaged, match="is damaged"):
            check(store)


def test_a_zeroed_page_that_no_question_reads_is_noticed(store: Path):
    """Zeroes a page that the questions do not read: none is answered."""
    data = store.read_bytes()
    store.write_bytes(data[:-PAGE] + bytes(PAGE))
    assert_noticed(store)


def test_torn_pages_are_noticed(store: Path):
    """Tears a page in half: noticed, unless that half was free room."""
    data, noticed, changed = store.read_bytes(), 0, 0
    for page in range(len(data) // PAGE):
        torn = data[page * PAGE : page * PAGE + PAGE // 2] + bytes(PAGE // 2)
        changed += torn != data[page * PAGE : (page + 1) * PAGE]
        store.write_bytes(data[: page * PAGE] + torn + data[(page + 1) * PAGE :])
        try:
            check(store)
        except Damaged:
            noticed += 1
    assert noticed > changed * 0.9, f"{noticed} of {changed}"


def test_the_log_of_another_store_is_noticed(store: Path, tmp_path: Path):
    """Puts the log of another database beside the store: no question is answered."""
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE t (i INTEGER)")
    other.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(4000)])
    other.commit()
    shutil.copy(tmp_path / "other.db-wal", f"{store}-wal")
    other.close()
    for words in commands(store):
        found = CliRunner().invoke(cli, words)
        assert found.exit_code == 1, (words, found.output)
        assert "damaged" in found.output or "is not a store" in found.output, (words, found.output)


def test_a_file_that_is_no_database_is_noticed(store: Path):
    """Overwrites the beginning of the store: no question is answered."""
    with store.open("r+b") as file:
        file.write(b"%PDF-1.7" + bytes(200))
    assert_noticed(store)


def test_of_a_large_store_the_tables_that_say_how_far_it_is_are_looked_at(store: Path):
    """Zeroes a page of a large store's own tables: noticed, in a time that does not grow with the views."""
    data = bytearray(store.read_bytes())
    with sqlite3.connect(store) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = '__commits'").fetchone()
    connection.close()
    data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    store.write_bytes(bytes(data))
    with pytest.raises(Damaged):
        check(store, whole=0)


def check(store: Path, **bound: int) -> None:
    reader = Reader(store.parent)
    try:
        reader._asked(lambda connection: check_undamaged(connection, store, **bound))
    except Damaged:
        raise
    except Exception as error:
        raise Damaged(f"the store is damaged: {error}") from error
    finally:
        reader.close()
