"""PostgreSQL is the store, and it is killed, restarted and cut off while an app runs: no pane is lost or doubled.

Each test ends with the audit: every view equals recomputation, and a file sink holds each pane once.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.store import StoreError
from penstock.store.connection import Away
from penstock.store.postgres.connection import PostgresConnection
from tests.conftest import without
from tests.faults.support import Rig, until
from tests.postgres import Postgres, find_postgres

pytestmark = pytest.mark.xdist_group("kafka")
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server of these tests' own: it is killed."""
    if find_postgres() is None:
        without("there is no PostgreSQL on this machine")
    started = Postgres().start()
    yield started
    started.close()


class Patient(Rig):
    """While the server is away nobody knows how far the app is."""

    def current(self) -> float:
        run = self.run
        assert run is not None

        def is_done() -> bool:
            try:
                newest = run.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
                positions = set(run.delivery.positions.values())
                return self.counted() >= len(self.produced) and positions == {newest}
            except Away:
                return False

        return until(is_done, run)


@pytest.fixture
def rig(spark: Any, tmp_path: Path, server: Postgres) -> Iterator[Rig]:
    url = f"{server.url}?schema=faults{os.getpid()}_{next(_NUMBERS)}"
    with Patient(spark, tmp_path, store=url) as made:
        yield made


def once(monkeypatch: pytest.MonkeyPatch, statement: str, fault: Any, after: bool = False) -> list[bool]:
    """Does something before the next statement that begins so, or after it; whether that was. 'COMMIT' is one."""
    done: list[bool] = []

    def faulty(method: Any, name: str) -> Any:
        def call(self: PostgresConnection, *given: Any) -> Any:
            said = given[0] if name == "_run" else "COMMIT"
            if done or not self.writes or not said.startswith(statement):
                return method(self, *given)
            done.append(True)
            if not after:
                fault()
                return method(self, *given)
            answer = method(self, *given)
            fault()
            raise_lost(self)
            return answer

        return call

    for name in ("_run", "commit"):
        monkeypatch.setattr(PostgresConnection, name, faulty(getattr(PostgresConnection, name), name))
    return done


def raise_lost(connection: PostgresConnection) -> None:
    """The answer of a statement never comes: the server is gone by then."""
    connection._broken = True
    raise connection._gone()


def begun(rig: Rig) -> Any:
    run = rig.start()
    rig.write()
    rig.current()
    return run


def test_killed_and_restarted_in_the_middle_of_an_epoch(rig, server, monkeypatch):
    run = begun(rig)

    def crash() -> None:
        server.kill()
        server.start()

    for statement in ('INSERT INTO "__view_', "INSERT INTO __outbox", "INSERT INTO __commits"):
        with monkeypatch.context() as patched:
            done = once(patched, statement, crash)
            for _ in range(2):
                rig.write()
            until(lambda: done, run)  # noqa: B023
            rig.current()
    until(lambda: not run.faults, run)
    rig.audit()


def test_killed_and_away_for_a_while(rig, server):
    run = begun(rig)
    server.kill()
    for _ in range(3):
        rig.write()
    until(lambda: run.faults, run)
    assert "cannot be reached" in str(next(iter(run.faults.values())).error)
    server.start()
    rig.current()
    until(lambda: not run.faults, run)
    rig.audit()


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_cut_off_at_the_commit_itself(rig, server, monkeypatch, after):
    run = begun(rig)
    before = rig.commits()
    with monkeypatch.context() as patched:
        done = once(patched, "COMMIT", server.cut, after=after)
        rig.write()
        until(lambda: done, run)
        rig.current()
    assert rig.commits() > before
    until(lambda: not run.faults, run)
    rig.audit()


def test_killed_after_the_commit_was_made_and_before_its_answer_came(rig, server, monkeypatch):
    run = begun(rig)

    def crash() -> None:
        server.kill()
        server.start()

    with monkeypatch.context() as patched:
        done = once(patched, "COMMIT", crash, after=True)
        rig.write()
        until(lambda: done, run)
        rig.current()
    rig.audit()


def test_a_server_that_has_lost_commits_ends_the_run(rig, server):
    """As when a copy takes over that was behind: what is in memory is ahead of it."""
    run = begun(rig)
    own = run.store.address.own
    with run.groups.of("events").lock:
        server.run(f"UPDATE \"{own}\".__meta SET value = value - 1 WHERE name = 'writes'")
    rig.write()
    with pytest.raises(StoreError, match="is not the one that this process wrote to"):
        until(lambda: False, run)
    rig.stop()
