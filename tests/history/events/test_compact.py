"""Compaction changes files and no content: readers never notice, and a kill in the middle changes nothing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from penstock.history.events.compact import Compaction, Rules
from penstock.history.events.pins import pinned
from penstock.history.events.verify import verify
from penstock.history.events.writer import GROUP_ROWS
from penstock.model.time import duration
from penstock.store import StoreError
from penstock.store.file import File
from tests.history.events.support import NOW, START, App, rows

SMALL = Rules(least=8, behind=2)


def filled(app: App, epochs: int = 10, size: int = 4, first: int = 0) -> None:
    for number in range(first, first + epochs):
        events = [(number * size + n, "ab"[n % 2], (number * 7 + n * 3) % 60) for n in range(size)]
        app.epoch(rows(*events, first=number * size))


def listed(app: App) -> list[tuple[int, int]]:
    return [(file.first, file.last) for file in app.store.listing().of("orders")]


def test_small_files_of_old_commits_become_one(app):
    filled(app)
    before = app.held()
    done = Compaction(app.history, SMALL).run(NOW)
    assert (done.before, done.after, done.rows) == (8, 1, 32)
    assert listed(app) == [(1, 8), (9, 9), (10, 10)]
    assert_frame_equal(app.held(), before)
    assert not list(verify(app.history))


def test_what_others_have_yet_to_read_stays_in_files_of_its_own(app):
    filled(app)
    app.history.read_through = {"orders": 4}.get
    Compaction(app.history, Rules(least=4, behind=2)).run(NOW)
    assert listed(app) == [(1, 4), *((number, number) for number in range(5, 11))]
    Compaction(app.history, SMALL).run(NOW, everything=True)
    assert listed(app) == [(1, 10)]


def test_every_past_is_the_same_before_and_after(app):
    filled(app, 12)
    bounds = [
        {"through": 5}, {"after": 3}, {"after": 2, "through": 7}, {"start": START + 20_000_000},
        {"end": START + 30_000_000, "through": 9},
    ]  # fmt: skip
    before = [app.held(**bound) for bound in bounds]
    Compaction(app.history, Rules(least=2, behind=0, target=20_000)).run(NOW)
    assert 1 < len(listed(app)) < 12
    for bound, frame in zip(bounds, before, strict=True):
        assert_frame_equal(app.held(**bound), frame)


@pytest.mark.parametrize("group", [GROUP_ROWS, 7])
def test_a_compacted_file_is_sorted_by_event_time(app, group):
    filled(app)
    before = app.held()
    Compaction(app.history, replace(SMALL, group_rows=group)).run(NOW, everything=True)
    assert_frame_equal(app.held(), before)
    (file,) = app.store.listing().of("orders")
    assert pq.read_metadata(app.history.place.path(file.path)).num_row_groups == -(-40 // group)
    times = pq.read_table(app.history.place.path(file.path))["__at"].to_pylist()
    assert times == sorted(times)
    assert (file.oldest, file.newest) == (times[0], times[-1])


def test_no_more_is_sorted_at_a_time_than_memory_allows(app):
    filled(app)
    compaction = Compaction(app.history, Rules(least=2, behind=0))
    (first, *_), held = app.store.listing().of("orders"), app.held()
    each = compaction._memory(first)
    assert each >= held.head(first.rows).estimated_size()
    Compaction(app.history, Rules(least=4, behind=0, memory=3 * each)).run(NOW)
    assert {last - first + 1 for first, last in listed(app)} <= {1, 2, 3}
    assert listed(app)[0] == (1, 3)
    assert_frame_equal(app.held(), held)


def test_a_reader_that_began_before_still_finds_its_files(app):
    filled(app)
    past, before = app.history.past(app.stream), app.held()
    compaction = Compaction(app.history, SMALL)
    compaction.run(NOW)
    assert_frame_equal(past.read().sort("__commit", "__partition", "__offset"), before)
    assert len(app.paths()) == 11
    assert compaction.run(NOW + duration("9 minutes")).removed == 0
    assert compaction.run(NOW + duration("11 minutes")).removed == 8  # the grace is over
    assert app.paths() == {file.path for file in app.store.listing().files}
    assert_frame_equal(app.held(), before)


def test_an_event_is_written_again_a_bounded_number_of_times_however_old_the_app_is(app, monkeypatch):
    rules, written = Rules(least=3, levels=3, behind=2), Counter[int]()
    rewrite, compaction = Compaction._rewrite, Compaction(app.history, rules)

    def counted(self: Compaction, group: list[File], *arguments: object) -> None:
        for file in group:
            written.update(range(file.first, file.last + 1))
        rewrite(self, group, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Compaction, "_rewrite", counted)
    for number in range(80):
        app.epoch(rows((number, "a", number % 60), first=number))
        compaction.run(NOW)
        waiting = (rules.least - 1) * rules.levels + rules.behind
        assert len(listed(app)) <= waiting + number // rules.least**rules.levels + 1
    assert set(written.values()) == {1, 2, 3}, "each level writes a commit once"
    assert not list(verify(app.history))
    assert app.held()["id"].to_list() == list(range(80))
    size = app.store.history_sizes()["orders"]
    assert size.write_amplification is not None
    assert 1 < size.write_amplification <= 1 + rules.levels
    assert listed(app)[0] == (1, 27)


def test_compacting_by_hand_makes_one_file_which_is_not_written_again_at_once(app):
    filled(app)
    Compaction(app.history, SMALL).run(NOW, everything=True)
    assert listed(app) == [(1, 10)]
    filled(app, 9, first=10)
    Compaction(app.history, SMALL).run(NOW)
    assert listed(app)[0] == (1, 10)


def test_what_a_pin_may_need_stays_until_it_is_released_or_expires(app):
    filled(app)
    compaction, later = Compaction(app.history, SMALL), NOW + duration("1 hour")
    with pinned(app.store, "audit", expires=later - time.time_ns() // 1000 + duration("1 hour")):
        past, before = app.history.past(app.stream), app.held()
        compaction.run(NOW)
        assert compaction.run(later).removed == 0
        assert_frame_equal(past.read().sort("__commit", "__partition", "__offset"), before)
    assert compaction.run(later).removed == 8
    filled(app, 8, first=10)
    with pinned(app.store, "killed", expires=later - time.time_ns() // 1000):
        assert compaction.run(later).after == 1
        assert compaction.run(later + duration("1 hour")).removed == 8, "the pin has expired"
    assert not list((app.store.directory / "pins").iterdir())


def test_files_that_were_replaced_before_a_pin_are_none_of_its_business(app):
    filled(app)
    compaction = Compaction(app.history, SMALL)
    compaction.run(NOW)
    app.epoch(rows((99, "a", 1), first=99))
    with pinned(app.store, "audit", expires=1 << 60):
        assert compaction.run(NOW + duration("1 hour")).removed == 8


def test_reading_while_it_compacts_gives_the_same_rows_every_time(app):
    filled(app, 30)
    before, over = app.held(), threading.Event()

    def compact() -> None:
        try:
            for least in (6, 5, 4, 3, 2):
                Compaction(app.history, Rules(least=least, behind=0, target=20_000 * (8 - least))).run(NOW)
        finally:
            over.set()

    thread = threading.Thread(target=compact)
    thread.start()
    reads = 0
    while not over.is_set() or not reads:
        assert_frame_equal(app.held(), before)
        reads += 1
    thread.join()
    assert len(listed(app)) < 30


@pytest.mark.parametrize("when", ["while it writes", "before it swaps"])
def test_a_kill_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch, when):
    app = App(tmp_path)
    filled(app)
    before, files = app.held(), listed(app)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if when == "before it swaps":
            patched.setattr(app.store, "swap_files", killed)
        else:
            patched.setattr("penstock.history.events.writer.FileWriter._flush", killed)
        with pytest.raises(KeyboardInterrupt):
            Compaction(app.history, SMALL).run(NOW)
    app.close()
    app = App(tmp_path)
    assert listed(app) == files
    assert_frame_equal(app.held(), before)
    Compaction(app.history, SMALL).run(NOW)
    assert_frame_equal(app.held(), before)
    assert len(app.paths()) == 8 + 3  # what was left behind is gone, what was replaced waits for its grace
    app.close()


def test_files_that_left_the_list_meanwhile_are_left_alone(app, monkeypatch):
    filled(app)
    real = app.store.swap_files

    def dropped(*arguments: object) -> None:
        app.store.forget_stream("orders")
        real(*arguments)

    monkeypatch.setattr(app.store, "swap_files", dropped)
    done = Compaction(app.history, SMALL).run(NOW)
    assert done.before == 0
    assert app.store.listing().files == []
    with pytest.raises(StoreError, match="no longer part of the history"):
        real(["x"], [], NOW)


def test_what_is_older_than_it_is_kept_goes_whole_file_by_whole_file(tmp_path):
    app = App(tmp_path, keep="20 seconds")
    for number in range(7):  # 0, 10, … 60 s; the watermark is 10 s behind
        app.epoch(rows((number, "a", number * 9), first=number))
    assert Compaction(app.history, SMALL).run(NOW).expired == 3
    assert app.held()["id"].to_list() == [3, 4, 5, 6]
    assert app.history.since("orders") == 3
    assert not app.history.has("orders")
    app.close()


def test_a_column_that_came_later_does_not_hinder(app):
    import penstock as ps
    from penstock.model.types import Schema
    from tests.history.events.support import SCHEMA

    filled(app, 4)
    old = app.stream
    wider = ps.stream("orders", schema=SCHEMA + ", shop string", event_time="at", id="id", watermark=old.watermark)
    app.history.keep({"orders": wider})
    past = app.history.past(wider)
    assert past.read()["shop"].null_count() == 16
    Compaction(app.history, SMALL).run(NOW, everything=True)
    assert app.history.past(wider).read().height == 16
    assert Schema.parse(app.store.listing().streams["orders"].schema).names[-1] == "shop"


def test_files_of_the_version_before_whose_rows_name_their_commit_are_read_and_compacted_with_others(app):
    filled(app)
    before = app.held()
    for file in app.store.listing().of("orders")[:4]:
        path = app.history.place.path(file.path)
        table = pq.read_table(path)
        place = table.column_names.index("__at")
        pq.write_table(table.add_column(place, "__commit", [[file.first] * table.num_rows]), path)
    assert_frame_equal(app.held(), before)
    Compaction(app.history, Rules(least=4, behind=0)).run(NOW, everything=True)
    assert listed(app) == [(1, 10)]
    assert_frame_equal(app.held(), before)


def test_files_that_no_commit_lists_are_looked_for_now_and_then(app):
    compaction = Compaction(app.history, Rules(sweep=duration("10 minutes")))
    app.epoch(rows((1, "a", 1)), lost=1)
    assert compaction.run(NOW).removed == 1
    app.epoch(rows((2, "a", 2), first=1), lost=1)
    assert compaction.run(NOW + duration("9 minutes")).removed == 0
    assert compaction.run(NOW + duration("10 minutes")).removed == 1
    assert app.held()["id"].to_list() == [1, 2]
