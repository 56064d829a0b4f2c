"""The history holds each accepted event once, by the commit that brought it, however epochs are cut and fail."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.history.events.columns import arrow_schema, of_one_commit
from penstock.history.events.event_history import EventHistory
from penstock.history.events.verify import verify
from penstock.history.events.writer import BackgroundWriter, FileWriter
from penstock.store import Commit, Reader, StoreError
from penstock.store.file import File
from tests.history.events.support import NOW, START, App, rows

#: A row as a task keeps it.
ROW = rows((1, "a", 1)).with_columns(pl.lit(START, pl.Int64).alias("__at"))
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"

EVENT = st.tuples(
    st.integers(1, 12), st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(0, 59), st.integers(0, 59))
)
#: Epochs of partitions of events. Attempts are lost in tasks, whole epochs fail before their commit, the app restarts.
EPOCH = st.tuples(
    st.lists(st.lists(EVENT, max_size=5), min_size=1, max_size=3),
    st.integers(0, 3),
    st.sampled_from(["well", "well", "fails", "restart"]),
)


def test_a_row_has_its_columns_its_commit_its_time_and_its_place(app):
    app.epoch(rows((1, "a", 3), (2, "b", 4), partition=7, first=20))
    found = app.held().to_dicts()
    assert [(row["id"], row["user"], str(row["price"])) for row in found] == [(1, "a", "0.25"), (2, "b", "0.50")]
    own = [[row[name] for name in ("__commit", "__at", "__partition", "__offset")] for row in found]
    assert own == [[1, START + 3_000_000, 7, 20], [1, START + 4_000_000, 7, 21]]


@settings(max_examples=300 if DEEP else 25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(EPOCH, min_size=1, max_size=6))
def test_in_any_cut_with_any_failure_each_accepted_event_is_there_once(epochs):
    with tempfile.TemporaryDirectory() as folder:
        app, offsets, ids, expected = App(Path(folder)), {}, set(), []
        for parts, lost, fate in epochs:
            frames = []
            for partition, events in enumerate(parts):
                first = offsets.setdefault(partition, 0)
                offsets[partition] += len(events)
                frames.append(rows(*events, partition=partition, first=first))
                for number, (id, user, second) in enumerate(events):
                    if user is not None and second is not None and id not in ids:
                        ids.add(id)
                        expected.append((app.last + 1, id, partition, first + number))
            if fate == "fails":
                with pytest.raises(PenstockError):
                    _fail_once(app, frames)
            if fate != "well":  # what failed in the middle starts anew, and the epoch comes again
                app.close()
                app = App(Path(folder))
            app.epoch(*frames, lost=lost)
        found = app.held().select("__commit", "id", "__partition", "__offset").rows()
        assert sorted(found) == sorted(expected)
        assert not list(verify(app.history))
        app.swept()
        assert app.paths() == {file.path for file in app.store.listing().files}
        app.close()


def _fail_once(app: App, frames: list[pl.DataFrame]) -> None:
    def fail(record: object) -> int:
        raise StoreError("no room")

    app.store.commit = fail  # type: ignore[method-assign]
    app.epoch(*frames)


def test_a_file_belongs_to_the_history_because_a_commit_lists_it(app):
    app.epoch(rows((1, "a", 1)), lost=1)
    assert len(app.paths()) == 2
    assert app.held()["id"].to_list() == [1]
    assert app.swept() == 1
    assert len(app.paths()) == 1


def test_files_that_a_running_epoch_may_write_are_not_swept(app):
    app.epoch(rows((1, "a", 1)))
    with app.history.keeping(app.stream, "q", 1) as keeping:
        writer = keeping.writer(0)
        writer.add(app.held())
        writer.close()
        app.epoch(rows((2, "a", 2), first=1))  # of another query: the one that runs may still commit
        assert app.swept() == 0
    assert app.swept() == 1


def test_files_of_a_writer_before_that_no_commit_lists_are_swept(app):
    with app.history.keeping(app.stream, "q", 0) as keeping, keeping.writer(0) as writer:
        writer.add(ROW)
    directory = app.store.directory
    app.close()
    again = App(directory)
    assert again.swept() == 1
    again.close()


def test_a_file_that_nobody_of_us_has_named_is_left_alone(app):
    app.epoch(rows((1, "a", 1)))
    Path(app.history.place.path(f"{app.history.home}/README")).write_text("of an operator")
    assert app.swept() == 0


def test_epochs_of_two_streams_that_overlap_list_their_files_under_the_commits_that_they_got(app):
    with app.history.keeping(app.stream, "slow", 0) as slow:
        with slow.writer(0) as writer:
            writer.add(ROW)
        app.epoch(rows((2, "b", 2)))  # commits first, though it began later
        number = app.store.commit(Commit("epoch", NOW, "slow", 0, "{}", files=[writer.file]))
    assert number == 2
    assert app.held().select("__commit", "id").rows() == [(1, 2), (2, 1)]
    assert app.swept() == 0


def test_a_range_of_commits_or_of_times_reads_only_files_that_may_hold_it(app):
    for number in range(6):
        app.epoch(rows((number, "a", number * 5), first=number))
    second = 1_000_000
    past = app.history.past(app.stream, start=START + 10 * second, end=START + 20 * second)
    assert [file.first for file in past.files] == [3, 4]
    assert past.read()["id"].to_list() == [2, 3]
    past = app.history.past(app.stream, after=1, through=3)
    assert [file.first for file in past.files] == [2, 3]
    assert past.rows == 2


def test_row_groups_are_written_as_rows_come(app):
    schema = of_one_commit(arrow_schema(app.stream.schema))
    blank = File("a.parquet", "orders", "events", 1, 1, 0, 0, "", None, None)
    with FileWriter(app.history.place, blank, schema, group_rows=4) as writer:
        for first in range(0, 12, 3):
            writer.add(pl.concat([ROW] * 3).with_columns(pl.Series("__offset", range(first, first + 3))))
    with app.history.place.open("a.parquet") as opened:
        footer = pq.read_metadata(opened)
    assert [footer.row_group(number).num_rows for number in range(footer.num_row_groups)] == [6, 6]
    group = footer.row_group(0)
    at = next(group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "__at")
    assert (at.statistics.min, at.compression) == (START, "ZSTD")


def test_a_file_that_is_written_beside_the_task_holds_all_rows_in_order(app):
    with app.history.keeping(app.stream, "q", 0) as keeping:
        writer = keeping.writer_beside(0)
        for first in range(10):
            writer.add(ROW.with_columns(pl.lit(first, pl.Int64).alias("__offset")))
        writer.begin_close()
        file = writer.close()
    with app.history.place.open(file.path) as opened:
        assert pq.read_table(opened)["__offset"].to_pylist() == list(range(10))


def test_a_file_that_cannot_be_written_beside_the_task_fails_the_task_and_is_removed(app):
    with app.history.keeping(app.stream, "q", 0) as keeping:
        writer = BackgroundWriter(keeping.writer(0), most_waiting=1)
        writer.add(ROW)
        writer.add(ROW.drop("id"))
        with pytest.raises(pl.exceptions.ColumnNotFoundError):
            writer.close()
        writer.abandon()
    assert app.paths() == set()


def test_a_stream_that_is_not_kept_writes_nothing(tmp_path):
    app = App(tmp_path, keep="none")
    app.epoch(rows((1, "a", 1), (2, "a", None)))
    assert app.store.listing().files == []
    assert app.history.since("orders") is None
    assert not (tmp_path / "history").exists()
    app.close()


def test_the_history_is_not_looked_for_elsewhere_than_where_it_lies(app, tmp_path):
    app.epoch(rows((1, "a", 1)))
    with pytest.raises(StoreError, match="the history lies in the app's directory"):
        EventHistory(app.store, str(tmp_path / "other")).keep({"orders": app.stream})


def test_a_reader_in_another_process_needs_no_lock(app, tmp_path):
    app.epoch(rows((1, "a", 1)))
    reader = Reader(tmp_path / "state")
    assert EventHistory(reader).past(app.stream).read()["id"].to_list() == [1]
    reader.close()


def test_a_directory_of_an_earlier_version_keeps_its_folder(app, tmp_path):
    app.epoch(rows((1, "a", 1)))
    app.close()
    (tmp_path / "state" / "history").rename(tmp_path / "state" / "master")
    other = App(tmp_path / "state")
    assert other.held()["id"].to_list() == [1]
    other.epoch(rows((2, "a", 1), first=1))
    other.close()
    assert not (tmp_path / "state" / "history").exists()
    assert len(list((tmp_path / "state" / "master").rglob("*.parquet"))) == 2


def test_the_old_names_of_the_classes_work_with_a_warning():
    from penstock.history.events import master

    with pytest.warns(DeprecationWarning, match="is called penstock.history.events.event_history.EventHistory now"):
        assert master.Master is EventHistory
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        master.Other  # noqa: B018
