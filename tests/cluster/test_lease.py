"""The writer's lock as a standby sees it: free, held, held by one that hangs; and what its token forbids afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.store import Reader, SqliteStore, Standby, StoreError, TakenOver
from penstock.store.lock import FileLock, InUse
from penstock.store.sqlite.connection import SqliteConnection
from tests.cluster.support import ROOT, until

HOLDS = """
import sys
from penstock.store import SqliteStore, StoreError
store = SqliteStore.open(sys.argv[1])
store.lock()
print("holds", flush=True)
for line in sys.stdin:
    try:
        if line == "begin\\n":
            connection = store._writing()
            connection.run("INSERT OR REPLACE INTO __sinks VALUES ('mine', 1)")
        elif line == "commit\\n":
            connection.commit()
        elif line == "check\\n":
            store.check_owner()
        else:
            store.delivered({"out": int(line)})
        print("done", flush=True)
    except StoreError as error:
        print(error.message, flush=True)
"""


class Holder:
    """Another process that has the store."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        assert self.answer() == "holds"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, what: object) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.answer()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    made = Holder(tmp_path)
    yield made
    made.kill()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Callable[[float], Waiting]]:
    made: list[Waiting] = []

    def wait(takeover_after: float = 60.0) -> Waiting:
        made.append(Waiting(tmp_path, takeover_after))
        return made[-1]

    yield wait
    for one in made:
        one.store.close()


class Waiting:
    """A standby in a thread of its own."""

    def __init__(self, directory: Path, takeover_after: float) -> None:
        self.store, self.said = SqliteStore.open(directory), list[str]()
        standby = Standby(takeover_after, self.said.append)
        self.thread = threading.Thread(target=self.store.lock, args=(standby,), daemon=True)
        self.thread.start()

    @property
    def has_it(self) -> bool:
        return not self.thread.is_alive()


def test_a_standby_says_who_has_the_lock_and_takes_over_when_that_process_dies(
    tmp_path: Path, holder: Holder, waiting: Callable[..., Waiting]
):
    standby = waiting()
    until(lambda: standby.said, "what it says")
    assert f"process {holder.process.pid} writes to '{tmp_path}'" in standby.said[0]
    assert not standby.has_it
    holder.kill()
    until(lambda: standby.has_it, "the lock")
    assert (standby.store.token, standby.store.took_over, len(standby.said)) == (2, False, 1)


def test_the_lock_holds_the_id_of_its_process_and_nothing_else(tmp_path: Path, holder: Holder):
    """`kill -9 $(cat lock)` of the tutorial must not mean a second process, nor the reader's own group by '0'."""
    lock = tmp_path / "lock"
    touched = {lock.stat().st_mtime_ns}
    until(lambda: touched.add(lock.stat().st_mtime_ns) or len(touched) > 2, "two signs of life")
    assert lock.read_text() == f"{holder.process.pid}\n"


def test_a_lock_that_was_given_back_names_no_process(tmp_path: Path):
    lock = FileLock(tmp_path / "lock")
    lock.take()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()
    assert (tmp_path / "lock").read_text() == ""


def test_a_process_that_gives_signs_of_life_keeps_its_lock(holder: Holder, waiting: Callable[..., Waiting]):
    standby = waiting(2.0)
    standby.thread.join(4.0)
    assert not standby.has_it
    assert holder.ask(7) == "done"


def test_a_process_that_hangs_is_taken_over_and_finds_out_when_it_wakes(
    tmp_path: Path, holder: Holder, waiting: Callable[..., Waiting]
):
    assert holder.ask(7) == "done"
    holder.pause()
    standby = waiting(2.0)
    until(lambda: standby.has_it, "the lock")
    assert (standby.store.token, standby.store.took_over) == (2, True)
    assert "has been silent for 2 s: taking over" in standby.said[-1]
    standby.store.delivered({"out": 8})
    holder.resume()
    for what in (9, "check"):
        assert holder.ask(what) == f"another process has taken over the store in '{tmp_path}'"
    standby.store.check_owner()
    assert standby.store.position("out") == 8
    with pytest.raises(InUse, match="in use by this process"):
        FileLock(tmp_path / "lock").take()
    holder.kill()  # which holds a lock that is nowhere to be found
    with pytest.raises(InUse, match="in use by this process"):
        FileLock(tmp_path / "lock").take()


def test_of_two_standbys_one_takes_over_and_the_other_waits_for_it(holder: Holder, waiting: Callable[..., Waiting]):
    holder.pause()
    two = [waiting(2.0), waiting(2.0)]
    until(lambda: any(one.has_it for one in two), "the lock")
    first, other = sorted(two, key=lambda one: not one.has_it)
    other.thread.join(4.0)
    assert not other.has_it, "the first one gives signs of life"
    first.store.delivered({"out": 1})
    first.store.close()
    until(lambda: other.has_it, "the lock of the other")
    assert other.store.token == 3


def test_a_process_in_the_middle_of_a_transaction_that_cannot_be_killed_is_waited_for(
    tmp_path: Path, holder: Holder, waiting: Callable[..., Waiting], monkeypatch: pytest.MonkeyPatch
):
    """It belongs to another user, or runs on another machine that shares the directory."""
    monkeypatch.setattr(FileLock, "kill_holder", lambda self: None)
    run = SqliteConnection.run

    def hasty(self: object, sql: str, *given: object) -> None:
        run(self, "PRAGMA busy_timeout = 100" if sql.startswith("PRAGMA busy_timeout") else sql, *given)

    monkeypatch.setattr("penstock.store.sqlite.connection.SqliteConnection.run", hasty)
    assert holder.ask("begin") == "done"
    holder.pause()
    standby = waiting(2.0)
    until(lambda: any("in the middle of a transaction" in said for said in standby.said), "what it says")
    assert not standby.has_it
    holder.resume()
    assert holder.ask("commit") == "done", "its token was the newest"
    until(lambda: standby.has_it, "the lock")
    assert standby.store.position("mine") == 1
    assert holder.ask(9).startswith("another process has taken over")


def test_a_transaction_begun_before_the_takeover_is_refused(tmp_path: Path):
    """It has looked at the token, and SQLite finds that what it has seen is not the newest any more."""
    old = SqliteStore.open(tmp_path)
    old.lock()
    new = SqliteStore.open(tmp_path)

    def write() -> None:
        with old._transaction() as connection:
            (tmp_path / "lock").unlink()
            new.lock()
            connection.run("INSERT OR REPLACE INTO __sinks VALUES ('out', 1)")

    with pytest.raises(TakenOver, match="another process has taken over"):
        write()
    assert new.position("out") == 0
    new.close()
    old.close()
    assert Reader(tmp_path).position("out") == 0


def test_a_standby_that_would_not_wait_for_a_sign_of_life_is_refused():
    with pytest.raises(StoreError, match=r"takeover_after must be at least 2 seconds, and is 0\.5"):
        Standby(0.5)
