"""Marks, ticks and figures of commits, and how long they are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.model.time import BEGINNING
from penstock.store import Commit, Keep, SqlStore, open_store
from penstock.store.figures import Figures, Intake
from penstock.store.marks import Mark, ReaderTime
from tests.store.conftest import Home

EVERY = Keep().every


@pytest.fixture
def store(home: Home) -> Iterator[SqlStore]:
    made = open_store(home.directory, Keep(commits=5), home.url)
    made.lock()
    made.keep_history({"s": ("all", "k string"), "o": ("none", "k string")}, None)
    yield made
    made.close()


def epoch(store: SqlStore, stream: str, number: int, mark: int = 0, read: int | None = None) -> int:
    times = [{"v": ReaderTime((stream,), mark - 1)}, {"v": ReaderTime((stream,), mark)}]
    return store.commit(
        Commit(
            "epoch",
            number,
            stream,
            number,
            "{}",
            mark=Mark.of(stream, *times),
            read_through=read,
            figures=Figures(intake=Intake("events", 10 + number)),
        )
    )


def test_a_reader_without_a_row_of_its_own_has_the_watermark_of_its_sources(store):
    times = {"a": ReaderTime(("s",), 7), "b": ReaderTime(("s",), 7), "both": ReaderTime(("s", "o"), 3)}
    mark = Mark.of("s", {}, {**times, "new": ReaderTime(("s",), 2)})
    assert len(mark.rows) == 3, "one for each set of sources, and one for the new view"
    store.commit(Commit("epoch", 1, "q", 0, "{}", mark=mark))
    readers = [("a", ["s"]), ("later", ["s"]), ("new", ["s"]), ("both", ["o", "s"]), ("else", ["s", "x"])]
    assert [store.times_of(name, sources, 0, 1)["after"].item() for name, sources in readers] == [7, 7, 2, 3, BEGINNING]


def test_marks_of_events_that_the_history_holds_outlive_their_commits(store):
    for number in range(EVERY // 2):
        epoch(store, "s", number, mark=number)
        epoch(store, "o", number, mark=number)
    assert store.query("SELECT count(*) FROM __commits").item() == 5
    assert store.times_of("v", ["s"], 0, 1000)["after"].to_list() == list(range(EVERY // 2))
    assert store.times_of("v", ["o"], 0, 1000).height <= 5, "nothing of it is kept"
    assert store.last_mark("v", ["s"]) == EVERY // 2 - 1


def test_a_tick_stays_until_the_derived_stream_that_it_is_for_has_read_it(store):
    for number in range(EVERY - 1):
        store.commit(Commit("tick", number, passed={"slow": number, "fast": number}))
        if number == 50:
            epoch(store, "fast", 0, read=40)
    epoch(store, "s", 0)
    assert store.ticks_of("slow", 0, 1000).height == EVERY - 1, "it has read nothing yet"
    assert store.ticks_of("fast", 0, 1000)["commit"].min() == 41
    assert store.last_mark("fast", []) == EVERY - 2


def test_the_limit_of_a_stream_outlives_its_commits(store):
    epoch(store, "o", 0)
    for number in range(EVERY):
        epoch(store, "s", number)
    assert store.query("SELECT * FROM __limits ORDER BY stream").rows() == [("o", "events", 10), ("s", "events", 109)]


def test_a_stream_that_is_dropped_leaves_nothing(store):
    epoch(store, "s", 0, mark=5)
    store.commit(Commit("tick", 1, passed={"s": 3}))
    store.forget_stream("s")
    for table in ("__epochs", "__marks", "__ticks", "__limits", "__stale"):
        assert store.query(f"SELECT count(*) FROM {table}").item() == 0, table
