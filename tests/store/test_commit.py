"""A commit is written whole or not at all, in one transaction, and by one writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from penstock.store import Commit, Progress, SqlStore, Standby, StoreError
from penstock.store.block import Head
from penstock.store.lock import FileLock
from tests.outbox import panes
from tests.store.conftest import NOON, ONLY_SQLITE, SECOND, VIEW, Home, change, contents, refused

ROWS = [("a", 1, 1), ("b", 2, 2), ("a", 3, 12)]
EVERYTHING = [
    f"SELECT * FROM {name}"
    for name in (
        "v",
        "__commits",
        "__outbox",
        "__refused",
        "__counters",
        "__trackers",
        "__progress",
        "__ids_s",
        "__meta",
    )
]


def full(store: SqlStore, *rows: tuple[object, int | None, int], after: int = NOON, epoch: int = 0) -> Commit:
    """A commit that has something of everything."""
    return Commit(
        kind="epoch",
        now=NOON,
        query="q",
        epoch=epoch,
        offsets=f"offsets {epoch}",
        changes={"v": change(store, "v", *rows, after=after)},
        view_times={"v": after},
        trackers={"s": {"watermark": after, "partitions": {0: [1, None, 2]}}},
        refused={"late": refused(1, 2), "dead": refused(3)},
        new_ids={"s": pl.DataFrame({"__id": [10 + epoch, 20 + epoch], "__at": [5, 9]})},
        forget_ids={"s": 7},
        counters={"events": 3, "late": 2},
        timings={"reduce": 1},
    )


def test_everything_of_a_commit_is_there_after_it(opened):
    store = opened(v=VIEW)
    assert store.last() is None
    assert store.progress("q") is None
    assert store.commit(full(store, *ROWS, after=NOON + 10 * SECOND)) == 1
    assert contents(store) == [
        ("a", "2024-05-01 12:00:00", "2024-05-01 12:00:10", 1, 1, 1),
        ("a", "2024-05-01 12:00:10", "2024-05-01 12:00:20", 1, 3, 0),
        ("b", "2024-05-01 12:00:00", "2024-05-01 12:00:10", 1, 2, 1),
    ]
    assert store.progress("q") == Progress(1, "q", 0, "offsets 0")
    last = store.last()
    assert (last.number, last.kind, last.epoch, last.now, last.panes) == (1, "epoch", 0, NOON, 2)
    assert store.view_times() == {"v": NOON + 10 * SECOND}
    assert store.trackers() == {"s": {"watermark": NOON + 10 * SECOND, "partitions": {"0": [1, None, 2]}}}
    assert store.counters() == {"events": 3, "late": 2}
    assert contents(store, 'SELECT kind, "offset" FROM __refused ORDER BY 2') == [("late", 1), ("late", 2), ("dead", 3)]
    assert store.ids("s", pl.DataFrame({"__id": [10, 20, 30]})).rows() == [(20, 9)]
    assert panes(store).select("id", "commit", "key", "values", "kind", "final").rows() == [
        (1, 1, '{"k":"a"}', '{"n":1,"total":1}', "insert", True),
        (2, 1, '{"k":"b"}', '{"n":1,"total":2}', "insert", True),
    ]


def test_commits_are_numbered_without_gaps_and_counters_add_up(opened):
    store = opened(v=VIEW)
    assert [store.commit(full(store, ("a", 1, 1), epoch=epoch)) for epoch in range(3)] == [1, 2, 3]
    assert store.commit(Commit(kind="tick", now=NOON)) == 4
    assert store.counters() == {"events": 9, "late": 6}
    assert contents(store, "SELECT n, total FROM v") == [(3, 3)]
    assert store.progress("q").commit == 3


def test_an_epoch_is_not_committed_twice(opened):
    store = opened(v=VIEW)
    store.commit(full(store, ("a", 1, 1), epoch=4))
    for epoch in (3, 4):
        with pytest.raises(StoreError, match="comes after epoch 4"):
            store.commit(full(store, ("a", 1, 1), epoch=epoch))
    assert contents(store, "SELECT n FROM v") == [(1,)]


@pytest.mark.parametrize("statement", range(14))
def test_a_failure_anywhere_in_a_commit_leaves_nothing_written_and_the_store_usable(opened, monkeypatch, statement):
    store = opened(v=VIEW)
    store.commit(full(store, *ROWS))
    before = [store.query(sql).rows() for sql in EVERYTHING]
    record = full(store, *ROWS, ("c", 1, 3), after=NOON + 10 * SECOND, epoch=1)
    left = statement

    def failing(method):
        def call(self, sql, *args):
            nonlocal left
            left -= sql.startswith(("INSERT", "DELETE", "UPDATE"))
            if left < 0:
                raise RuntimeError("injected")
            return method(self, sql, *args)

        return call

    with monkeypatch.context() as patched:
        kind = type(store._writer)
        patched.setattr(kind, "run", failing(kind.run))
        name = "_each" if hasattr(kind, "_each") else "_run"
        patched.setattr(kind, name, failing(getattr(kind, name)))
        with pytest.raises(RuntimeError, match="injected"):
            store.commit(record)
    assert [store.query(sql).rows() for sql in EVERYTHING] == before
    assert store.commit(record) == 2


@ONLY_SQLITE
def test_a_full_disk_leaves_nothing_written_and_the_store_usable(opened):
    store = opened(v=VIEW)
    store.commit(full(store, *ROWS))
    before = [store.query(sql).rows() for sql in EVERYTHING]
    (pages,) = store._writer.rows("PRAGMA page_count").row(0)
    store._writer.run(f"PRAGMA max_page_count = {pages + 2}")
    many = [(f"key {number}", 1, number % 50) for number in range(5000)]
    with pytest.raises(StoreError, match="no room") as error:
        store.commit(full(store, *many, epoch=1))
    assert "free some space" in str(error.value)
    assert [store.query(sql).rows() for sql in EVERYTHING] == before
    store._writer.run("PRAGMA max_page_count = 1000000")
    assert store.commit(full(store, *many, epoch=1)) == 2


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from penstock.kernel.plan import Plan
    from penstock.store import open_store
    from tests.store.conftest import VIEW
    from tests.store.test_commit import ROWS, full

    store = open_store(Path(sys.argv[1]), url=sys.argv[3] or None)
    store.lock()
    store.prepare({"v": Plan(VIEW)})
    store.commit(full(store, *ROWS))
    connection = type(store._writer)
    run, left = connection.run, int(sys.argv[2])

    def dying(self, sql, *args):
        global left
        run(self, sql, *args)
        left -= sql.startswith(("INSERT", "DELETE", "UPDATE"))
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.run = dying
    store.commit(full(store, ("c", 1, 3), epoch=1))
"""


@pytest.mark.parametrize("statement", [1, 4, 6])
def test_a_process_killed_within_a_commit_leaves_the_commit_before_it(home: Home, statement: int):
    code = [sys.executable, "-c", textwrap.dedent(KILLED), str(home.directory), str(statement), home.url or ""]
    died = subprocess.run(code, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    reader = home.reader()
    assert reader.last().number == 1
    assert [row[0] for row in reader.query("SELECT k FROM v ORDER BY 1").rows()] == ["a", "a", "b"]
    reader.close()
    store = home.store()
    store.lock(Standby())  # the server may still have to notice
    assert store.token == 2
    store.close()


# one writer


def test_a_second_process_is_told_who_has_the_store(opened, home: Home):
    opened(v=VIEW)
    code = "import sys; from penstock.store import open_store; open_store(sys.argv[1]).lock()"
    command = [sys.executable, "-c", code, home.directory]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert f"is in use by process {os.getpid()}" in other.stderr
    assert f"kill {os.getpid()}" in other.stderr


def test_the_lock_is_free_after_close_and_each_writer_has_its_own_token(home: Home):
    tokens = []
    for _ in range(3):
        store = home.store()
        tokens.append(store.lock())
        with pytest.raises(StoreError, match="in use by this process"):
            home.store().lock()
        store.close()
    assert tokens == [1, 2, 3]


STOPPED = """
import sys
from penstock.store import open_store
store = open_store(sys.argv[1])
store.lock()
with store._transaction() as connection:
    connection.run("UPDATE __meta SET value = value + 100 WHERE name = 'token'")
    print("in a transaction", flush=True)
    sys.stdin.read()
"""


@ONLY_SQLITE
def test_a_standby_kills_a_silent_process_that_keeps_the_database_locked(home: Home):
    command = [sys.executable, "-c", STOPPED, str(home.directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in a transaction\n"
        other.send_signal(signal.SIGSTOP)
        told: list[str] = []
        store = home.store()
        assert store.lock(Standby(takeover_after=2.0, tell=told.append)) == 2  # not what it was about to write
        assert other.wait() == -signal.SIGKILL
    assert told[-1].endswith(f"process {other.pid}, which is silent, is in the middle of a transaction; killed it")
    store.close()


def test_a_process_that_has_not_the_lock_is_not_killed(tmp_path: Path):
    """The silent process is gone, and another one has its id."""
    held = FileLock(tmp_path / "lock")
    held.take()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "lock").write_text(f"{other.pid}\n")
        held._done.set()  # no further sign of life
        standby = FileLock(tmp_path / "lock")
        assert standby.wait(Standby(takeover_after=2.0, tell=str))
        assert standby.kill_holder() is None
        assert other.poll() is None
        other.communicate(b"\n")
    standby.release()


def test_a_writer_that_was_taken_over_writes_nothing_more(opened, home: Home):
    store = opened(v=VIEW)
    store.commit(full(store, *ROWS))
    (home.directory / "lock").unlink()  # as on a file system whose locks do not hold
    if not home.is_sqlite:
        store._writer.close()  # as where the network between us and the server is gone for a while
    other = opened(v=VIEW)
    with pytest.raises(StoreError, match="another process has taken over"):
        store.commit(full(store, ("c", 1, 3), epoch=1))
    assert other.commit(full(other, ("c", 1, 3), epoch=1)) == 2
    with pytest.raises(StoreError, match="another process has taken over"):
        store.delivered({"sink": 1})


def test_writing_without_the_lock_is_refused(home: Home):
    store = home.store()
    with pytest.raises(StoreError, match=r"call lock\(\) before writing"):
        store.commit(Commit(kind="tick", now=0))


# outbox and retention


def test_each_sink_has_its_own_place_in_the_outbox(opened):
    store = opened(v=VIEW)
    for epoch in range(3):
        after = NOON + 10 * (epoch + 1) * SECOND
        store.commit(full(store, ("a", 1, 10 * epoch + 1), after=after, epoch=epoch))
    assert panes(store)["id"].to_list() == [1, 2, 3]
    assert store.heads("v", 1, 1) == [Head(2, 2, 2)]
    store.delivered({"files": 2})
    store.delivered({"kafka": 1})
    assert (store.position("files"), store.position("kafka"), store.position("new")) == (2, 1, 0)
    assert store.trim_outbox(min(store.position("files"), store.position("kafka"))) == 1
    assert panes(store)["id"].to_list() == [2, 3]
    store.trim_outbox(3)
    assert panes(store).rows() == []
    store.commit(full(store, ("a", 1, 31), after=NOON + 40 * SECOND, epoch=3))
    assert panes(store)["id"].to_list() == [4]


def test_panes_that_nobody_listens_to_are_not_kept(opened):
    store = opened(v=VIEW, w=VIEW)
    changes = {name: change(store, name, *ROWS, after=NOON + 10 * SECOND) for name in ("v", "w")}
    store.commit(Commit(kind="tick", now=NOON, changes=changes, deliver={"w"}))
    assert panes(store)["view"].unique().to_list() == ["w"]


def test_retention_removes_final_rows_only(opened):
    store = opened(v=VIEW)
    store.commit(full(store, ("a", 1, 1), ("a", 1, 11), ("a", 1, 21), after=NOON + 20 * SECOND))
    store.commit(Commit(kind="tick", now=NOON, expire={"v": NOON + 20 * SECOND}))
    rows = contents(store, "SELECT window_start, final FROM v ORDER BY 1")
    assert rows == [("2024-05-01 12:00:10", 1), ("2024-05-01 12:00:20", 0)]
    store.commit(Commit(kind="tick", now=NOON, expire={"v": NOON + 3600 * SECOND}))
    assert contents(store, "SELECT window_start, final FROM v") == [("2024-05-01 12:00:20", 0)]
