"""Faults of the store while an app runs: locked, full, gone, replaced by an older one.

What passes is waited for, and the app goes on by itself; what does not ends it, and nothing is made anew in silence.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.runtime.errors import RunError
from penstock.store import StoreError
from penstock.store.sqlite import connection
from tests.faults.support import Rig, until

pytestmark = pytest.mark.xdist_group("kafka")

#: Another process: two copies of SQLite in one process undo each other's locks.
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
held.execute("ROLLBACK")
"""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Another program writes to the store, and does not end its transaction."""
    with subprocess.Popen([sys.executable, "-c", HOLD, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield


def test_while_the_store_is_locked_the_app_waits_and_then_goes_on(spark, tmp_path, caplog):
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        rig.write()
        rig.current()
        assert run.store._writer is not None
        run.store._writer.run("PRAGMA busy_timeout = 100")
        with locked(run.store.path):
            before = rig.commits()
            for _ in range(3):
                rig.write()
            until(lambda: "the stream 'events'" in run.faults and run.faults["the stream 'events'"].count > 1, run)
            assert rig.commits() == before
            assert "is locked by another program" in str(run.faults["the stream 'events'"].error)
            with run.groups.turn(["events"]) as engine:  # an epoch that failed has moved nothing
                assert engine.registry.trackers["events"].watermark == run.store.trackers()["events"]["watermark"]
        rig.current()
        until(lambda: not run.faults, run)
        rig.audit()
    assert "the stream 'events' failed (1 in a row), next try in 0.5 s: the store" in caplog.text
    assert "the stream 'events' works again" in caplog.text


def test_a_store_without_room_waits_for_some(spark, tmp_path, monkeypatch):
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        rig.write()
        rig.current()
        writer = run.store._writer
        assert writer is not None
        pages = run.store.query("SELECT page_count FROM pragma_page_count()").item()
        limit = f"PRAGMA max_page_count = {pages + 2}"
        with monkeypatch.context() as full:
            full.setattr(connection, "_WRITING", (*connection._WRITING, limit))  # also where it connects anew
            writer.run(limit)
            for _ in range(4):
                rig.write(200)
            until(lambda: run.faults and max(fault.count for fault in run.faults.values()) > 1, run)
            assert any("there is no room for the store" in str(fault.error) for fault in run.faults.values())
        rig.current()
        until(lambda: not run.faults, run)
        rig.audit()


def test_a_directory_that_vanishes_ends_the_app_and_nothing_takes_its_place(spark, tmp_path):
    away = tmp_path / "away"
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        rig.write()
        rig.current()
        rig.state.rename(away)
        rig.write()
        with pytest.raises(StoreError, match="is gone: it was moved, deleted or replaced") as error:
            until(lambda: False, run)
        assert "start the app again" in str(error.value)
        rig.stop()
        assert not rig.state.exists(), sorted(rig.state.rglob("*"))
        away.rename(rig.state)
        rig.start()
        rig.write()
        rig.current()
        rig.audit()


def test_a_store_that_is_put_in_the_place_of_ours_is_not_written(spark, tmp_path):
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        rig.write()
        rig.current()
        for part in rig.state.glob("store.db*"):
            shutil.copy(part, tmp_path / part.name)
        shutil.copy(rig.state / "store.db", rig.state / "other")
        (rig.state / "other").rename(rig.state / "store.db")
        rig.write()
        with pytest.raises(StoreError, match="moved, deleted or replaced"):
            until(lambda: False, run)
        rig.stop()
        for part in rig.state.glob("store.db*"):
            part.unlink()
        for part in tmp_path.glob("store.db*"):
            part.rename(rig.state / part.name)
        rig.start()
        rig.current()
        rig.audit()


def test_an_older_copy_of_the_store_is_refused_before_anything_is_read(spark, tmp_path):
    with Rig(spark, tmp_path) as rig:
        rig.start()
        rig.write()
        rig.current()
        rig.stop()
        shutil.copytree(rig.state, tmp_path / "copy")
        rig.start()
        for _ in range(2):  # the last one may come again: Spark may be stopped before it notes that it is done
            rig.write()
            rig.current()
        rig.stop()
        newer = (rig.state / "store.db").read_bytes()
        shutil.copy(tmp_path / "copy" / "store.db", rig.state / "store.db")
        with pytest.raises(RunError, match="the store is behind Spark's log of the stream 'events'"):
            rig.start()
        (rig.state / "store.db").write_bytes(newer)
        rig.start()
        rig.write()
        rig.current()
        rig.audit()
