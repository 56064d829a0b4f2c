"""The versions of tables that commits had outlive the commits, as long as the events are held."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.history.batch.versions import UnknownVersions, Versions
from penstock.store import Commit, Keep, Reader, SqliteStore
from penstock.store.file import PastVersions
from penstock.store.marks import Mark

EVERY = Keep().every
CLICKS = ps.stream("clicks", schema="user int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
USERS = ps.table("users", ps.files("users"), schema="id int, tier string", key="id")
VIEW = CLICKS.join(USERS, on="user = id").group_by("tier").agg(n=ps.count())


@pytest.fixture
def store(tmp_path: Path):
    made = SqliteStore.open(tmp_path, keep=Keep(commits=5))
    made.lock()
    made.keep_history({"clicks": ("all", "user int, at timestamp")}, None)
    yield made
    made.close()


def commit(store: SqliteStore, epoch: int, **versions: int) -> int:
    """An epoch of clicks, joined with these versions."""
    return store.commit(
        Commit(
            kind="epoch", now=epoch, query="q", epoch=epoch, offsets=str(epoch), mark=Mark("clicks"),
            versions=versions,
        )
    )  # fmt: skip


def stretches(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, dict[str, int]]]:
    monkeypatch.setattr(Versions, "_check_there", lambda self: None)
    last = store.last()
    assert last is not None
    found = Versions(Reader(store.directory), "by_tier", VIEW, 0, last.number).stretches
    return [(one.after, one.through, dict(one.versions)) for one in found]


def test_versions_are_known_when_their_commits_are_forgotten(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    for epoch in range(EVERY):
        commit(store, epoch, users=1 + epoch // 40)
    assert store.query("SELECT count(*) FROM __commits").item() == 5
    assert stretches(store, monkeypatch) == [(0, 40, {"users": 1}), (40, 80, {"users": 2}), (80, 100, {"users": 3})]
    assert store.query("SELECT count(*) FROM __versions").item() == 3, "a row where one changes"


def test_versions_of_events_that_are_no_longer_held_are_forgotten(store: SqliteStore):
    for epoch in range(EVERY - 1):
        commit(store, epoch, users=epoch)
    with store._transaction() as connection:
        connection.run("UPDATE __kept SET since = 90")
    commit(store, EVERY, users=1000)
    assert store.query('SELECT min("commit") FROM __versions').item() == 90


def test_commits_that_joined_without_the_table_do_not_have_its_version(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    commit(store, 0, users=1)
    commit(store, 1)
    commit(store, 2, users=1)
    with pytest.raises(UnknownVersions, match="the version of 'users' that commit 2 read is not recorded"):
        stretches(store, monkeypatch)


def test_what_a_run_from_the_past_was_joined_with_is_known_when_its_commit_is_forgotten(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    commit(store, 0, users=1)
    store.commit(Commit(kind="swap", now=1, past=PastVersions("by_tier", {"users": 2}, 1, True)))
    with store._transaction() as connection:
        connection.run("INSERT INTO __generations VALUES ('by_tier', 2, 'batch', '', NULL, NULL, 1, 2, 1)")
    for epoch in range(1, EVERY):
        commit(store, epoch, users=3)
    assert store.query("SELECT 1 FROM __commits WHERE number = 2").height == 0
    assert stretches(store, monkeypatch) == [(0, 1, {"users": 2}), (1, 101, {"users": 3})]
