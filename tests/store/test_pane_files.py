"""Panes in files that a commit lists: read like those in the outbox, and removed when nobody needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.model.commits import Event
from penstock.model.time import BEGINNING
from penstock.sinks.pane_reader import PaneReader
from penstock.state.pane_file import PaneFileError, write_panes
from penstock.state.sweep import sweep_orphans, sweep_panes
from penstock.store import Reader, SqliteStore
from tests import outbox
from tests.faults.segments import files_of
from tests.store.sharded import commit_step

NOW = 1_700_000_000_000_000
WORDS = ps.stream("words", schema="word string, n bigint")
VIEW = WORDS.group_by("word").agg(n=ps.sum("n")).retracting()


def opened(directory: Path, shards: int | None) -> SqliteStore:
    store = SqliteStore.open(directory)
    store.lock()
    store.prepare({"by_word": Plan(VIEW)})
    if shards is not None:
        store.shard("by_word", shards)
    return store


def count(store: SqliteStore, words: str, now: int = NOW) -> None:
    """A commit that counts these words, of a letter each."""
    events = events_frame(WORDS, [Event("words", {"word": word, "n": 1}, 0, n) for n, word in enumerate(words)], 0)
    deltas = reduce(Plan(VIEW), "words", admit(WORDS, events, now).rows, BEGINNING).deltas
    commit_step(store, "by_word", [deltas], Time(BEGINNING, BEGINNING, now, lambda _: BEGINNING))


@pytest.fixture
def store(tmp_path: Path):
    store = opened(tmp_path / "app", 3)
    yield store
    store.close()


def files(store: SqliteStore) -> set[str]:
    return {name for name in files_of(Path(store.segments_at)) if name.startswith("panes/")}


def listed(store: SqliteStore) -> set[str]:
    return {file.path for file in store.needed_pane_files()}


def test_panes_have_the_ids_and_the_order_of_those_in_the_store(store: SqliteStore, tmp_path: Path):
    other = opened(tmp_path / "other", None)
    for words in ("hello world", "the quick brown fox", "jumps"):
        for one in (store, other):
            count(one, words)
    assert files(store) == listed(store) != set()
    assert not other.needed_pane_files()
    assert outbox.panes(store).equals(outbox.panes(other))
    reader, taken = PaneReader(Reader(tmp_path / "app"), keep=5), []
    reader.refresh(["by_word"])
    last = 0
    while reader.look("by_word")[1] > last:
        panes, last = reader.panes("by_word", last, 3)
        taken += panes["id"].to_list()
    assert taken == outbox.panes(other)["id"].to_list()
    other.close()


def test_files_stay_until_all_of_their_panes_are_trimmed_and_a_grace_has_passed(store: SqliteStore):
    count(store, "abc", NOW)
    first, last = files(store), int(outbox.panes(store)["id"][-1])
    count(store, "abcd", NOW + 5)
    store.trim_outbox(last - 1)
    assert sweep_panes(store, NOW + 100, 0) == 0
    store.trim_outbox(last)
    assert sweep_panes(store, NOW + 9, grace=4) == 0
    assert files(store) > first
    assert sweep_panes(store, NOW + 10, grace=4) == len(first)
    assert files(store) == listed(store)
    assert files(store).isdisjoint(first)
    assert outbox.panes(store)["id"][0] == last + 1
    assert sweep_orphans(store, frozenset) == 0


def test_a_file_that_no_commit_lists_is_swept_unless_its_attempt_runs(store: SqliteStore):
    count(store, "ab")
    panes = outbox.panes(store)
    write_panes(store.segments_at, "7-state-a9.0-zombie", panes)
    assert sweep_orphans(store, lambda: ["7-state-a9"]) == 0
    assert sweep_orphans(store, frozenset) == 1
    assert outbox.panes(store).equals(panes)
    assert files(store) == listed(store)


def test_the_files_of_a_dropped_view_go(store: SqliteStore):
    count(store, "ab")
    store.drop("by_word")
    assert sweep_panes(store, 1 << 60) > 0
    assert files(store) == listed(store) == set()


def test_a_missing_file_is_named(store: SqliteStore):
    count(store, "ab")
    name = sorted(files(store))[0]
    (Path(store.segments_at) / name).unlink()
    with pytest.raises(PaneFileError, match=name.rpartition("/")[2]):
        outbox.panes(store)
    with pytest.raises(PaneFileError, match="cannot be read"):
        store.check_segments()
