"""Bad input and bad surroundings: each a clear message or a dead letter, and nothing is lost once the cause is gone.

`test_run.py` has more of them: malformed lines, wrong types, null and far event times, changed definitions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import PenstockError
from penstock.runtime.errors import RunError
from penstock.store import Reader, SqliteStore
from tests.runtime.test_run import SCHEMA, make, put, rows, started

COMMAND = (sys.executable, "-m", "penstock.cli")
COUNTS = "SELECT page, n, ms FROM by_page ORDER BY page"
APP = """
import penstock as ps

app = ps.App("shop")
visits = app.stream("visits", ps.files("in"), schema="page string, ms int")
app.view("by_page", visits.group_by({key!r}).agg(n=ps.count()))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def visit(page: str, second: int, ms: object = 1) -> list[object]:
    return [page, "u", ms, f"2024-05-01T12:00:{second:02}Z"]


def read_once(root: Path, spark) -> list[tuple]:
    """Runs the app until it has read all there is; what it counts then."""
    run = started(make(root)[0], root, spark)
    try:
        run.catch_up()
        return rows(run, COUNTS)
    finally:
        run.stop()


def command(root: Path, *arguments: str) -> tuple[int, str]:
    """A command as a user gives it: its exit code, and what it says of an error."""
    done = subprocess.run([*COMMAND, *arguments], cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def app_file(root: Path, key: str = "page") -> str:
    (root / "app.py").write_text(APP.format(key=key))
    return "app.py"


# input


def test_a_cast_that_fails_is_a_dead_letter_of_its_view_only(root, spark):
    app, stream = make(root)
    app.view("numbers", stream.group_by().agg(s=ps.sum("CAST(page AS int)")))
    put(root, "a", visit("7", 1), visit("seven", 2))
    run = started(app, root, spark)
    try:
        run.catch_up()
        assert rows(run, "SELECT s FROM numbers") == [(7,)]
        assert [page for page, _, _ in rows(run, COUNTS)] == ["7", "seven"]
        dead = rows(run, "SELECT view, reason, row FROM __refused WHERE kind = 'dead'")
        assert len(dead) == 1
        assert dead[0][0] == "numbers"
        assert "seven" in dead[0][1] or "seven" in dead[0][2]
    finally:
        run.stop()


def test_an_unknown_column_is_named_with_those_that_there_are(root):
    code, said = command(root, "run", app_file(root, key="pgae"))
    assert code == 1
    assert "pgae" in said
    assert "page" in said.replace("pgae", "")


def test_a_schema_that_changed_is_refused_and_goes_on_when_it_is_changed_back(root, spark):
    put(root, "a", visit("/a", 1))
    assert read_once(root, spark) == [("/a", 1, 1)]
    other = App("test")
    stream = other.stream(
        "visits", ps.files(root / "in"), schema=SCHEMA.replace("ms int", "ms double"), event_time="at",
        watermark=ps.bounded("10 seconds"),
    )  # fmt: skip
    other.view("by_page", stream.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count(), ms=ps.sum("ms")))
    with pytest.raises(PenstockError, match="another definition") as refused:
        started(other, root, spark)
    assert "ms int" in str(refused.value.detail)
    assert "ms double" in str(refused.value.detail)
    put(root, "b", visit("/b", 2))
    assert read_once(root, spark) == [("/a", 1, 1), ("/b", 1, 1)]


# directories


def test_a_directory_that_cannot_be_written_is_named(root):
    file = app_file(root)
    code, said = command(root, "run", file, "--no-serve", "--dir", "/proc/penstock")
    assert (code, "/proc/penstock" in said) == (1, True)
    (root / "taken").write_text("a file")
    code, said = command(root, "run", file, "--no-serve", "--dir", "taken")
    assert (code, "taken" in said) == (1, True)
    assert (root / "taken").read_text() == "a file"
    with pytest.raises(PenstockError, match="cannot make the directory"):
        SqliteStore.open("/proc/penstock")


def test_a_full_directory_stops_an_app_without_patience_and_nothing_is_lost(root, spark):
    put(root, "a", visit("/a", 1))
    assert read_once(root, spark) == [("/a", 1, 1)]
    app, _ = make(root)
    run = app.start(root / "state", spark=spark, tick=3600.0, patience=-1.0)
    try:
        with run.store._transaction() as connection:
            (pages,) = connection.rows("PRAGMA page_count").row(0)
            connection.rows(f"PRAGMA max_page_count = {pages}")
        put(root, "b", *(visit(f"/{number:0200}", number % 60) for number in range(500)))
        with pytest.raises(PenstockError, match="there is no room for the store"):
            run.catch_up()
        assert rows(run, COUNTS) == [("/a", 1, 1)], "all or nothing"
    finally:
        run.stop()
    counted = read_once(root, spark)
    assert len(counted) == 501
    assert sum(n for _, n, _ in counted) == 501


def test_a_checkpoint_that_was_gone_and_is_back_goes_on(root, spark):
    put(root, "a", visit("/a", 1))
    read_once(root, spark)
    checkpoints = root / "state" / "checkpoints"
    shutil.move(checkpoints, root / "aside")
    with pytest.raises(RunError, match="checkpoint") as refused:
        started(make(root)[0], root, spark)
    assert "delete" in str(refused.value.hint)
    shutil.move(root / "aside", checkpoints)
    put(root, "b", visit("/a", 2))
    assert read_once(root, spark) == [("/a", 2, 2)]


def test_a_store_older_than_the_checkpoint_is_refused_and_the_newer_one_goes_on(root, spark):
    state = root / "state"
    put(root, "a", visit("/a", 1))
    read_once(root, spark)
    shutil.copy(state / "store.db", root / "old.db")
    put(root, "b", visit("/a", 2))
    read_once(root, spark)
    shutil.move(state / "store.db", root / "new.db")
    shutil.copy(root / "old.db", state / "store.db")
    put(root, "c", visit("/a", 3))
    with pytest.raises(RunError, match="the store is behind Spark's log"):
        started(make(root)[0], root, spark)
    assert Reader(state).query(COUNTS).rows() == [("/a", 1, 1)], "it has counted nothing more"
    shutil.move(root / "new.db", state / "store.db")
    assert read_once(root, spark) == [("/a", 3, 3)]


def test_a_second_process_is_told_who_is_there(root):
    store = SqliteStore.open(root / ".penstock")
    store.lock()
    try:
        code, said = command(root, "run", app_file(root), "--no-serve")
        assert code == 1
        assert "is in use by process" in said
        assert "hint:" in said
    finally:
        store.close()
