"""A store may be called by several threads: epochs of groups that overlap, sinks, and the trim of the outbox."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import polars as pl
import pytest

from penstock.kernel.fire import Time
from penstock.model.time import BEGINNING
from penstock.store import Commit, SqlStore, StoreError
from penstock.store.file import File
from tests.store.conftest import NOON, VIEW, change

ROUNDS = 12


def together(*works: Callable[[], None]) -> None:
    """Runs functions at the same time, each in a thread of its own; the first error is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result(60)


def epochs(store: SqlStore, view: str, start: Barrier) -> list[int]:
    """Epochs of a query that each add a row to its own view and bring a file; their commits."""
    start.wait()
    numbers = []
    for epoch in range(ROUNDS):
        file = File(f"{view}/{epoch}", view, "events", 0, 0, 1, 1, "", None, None)
        changes = {view: change(store, view, (view, 1, 1))}
        known = store.ids(view, pl.DataFrame({"__id": [epoch, epoch - 1]}))
        assert known["__id"].to_list() == ([epoch - 1] if epoch else [])
        ids = {view: pl.DataFrame({"__id": [epoch], "__at": [0]})}
        record = Commit("epoch", NOON, view, epoch, f"{epoch}", changes, files=[file], new_ids=ids, counters={"all": 1})
        numbers.append(store.commit(record))
    return numbers


def test_epochs_of_groups_that_overlap_get_numbers_without_gaps_and_lose_nothing(opened):
    store = opened(a=VIEW, b=VIEW, c=VIEW)
    start, numbers = Barrier(3), {}
    together(*(lambda view=view: numbers.update({view: epochs(store, view, start)}) for view in "abc"))
    assert sorted(number for mine in numbers.values() for number in mine) == list(range(1, 3 * ROUNDS + 1))
    for view in "abc":
        assert store.query(f"SELECT k, n FROM {view}").rows() == [(view, ROUNDS)]
        listed = [(file.path, file.first, file.last) for file in store.listing().of(view)]
        assert listed == [(f"{view}/{epoch}", number, number) for epoch, number in enumerate(numbers[view])]
    assert store.counters() == {"all": 3 * ROUNDS}


def test_a_sink_and_the_trim_need_no_lock_but_the_stores(opened):
    store = opened(a=VIEW)
    start, done = Barrier(3), Event()

    def commit() -> None:
        epochs(store, "a", start)
        done.set()

    def deliver() -> None:
        start.wait()
        position = 0
        while not done.is_set():
            position += 1
            store.delivered({"sink": position})
            assert store.position("sink") == position

    def trim() -> None:
        start.wait()
        while not done.is_set():
            store.trim_outbox(0)
            store.state("a").due(Time(BEGINNING, BEGINNING, NOON, lambda percent: BEGINNING))

    together(commit, deliver, trim)
    assert store.query("SELECT n FROM a").rows() == [(ROUNDS,)]


def test_a_read_inside_a_transaction_leaves_it_open(opened):
    store = opened(a=VIEW)
    with store._transaction() as connection:
        connection.run("INSERT INTO __counters VALUES ('kept', 1)")
        assert store.state("a").open_rows(10).height == 0
        assert store.ids("a", pl.DataFrame({"__id": [1]})).height == 0
    assert store.counters() == {"kept": 1}


def test_a_transaction_inside_another_is_refused_and_nothing_is_written(opened):
    store = opened(a=VIEW)
    with pytest.raises(StoreError, match="inside another"), store._transaction():
        store.delivered({"sink": 5})
    assert store.position("sink") == 0
    store.delivered({"sink": 6})
    assert store.position("sink") == 6
