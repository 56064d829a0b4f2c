"""Exactly once in files, whatever dies: between write and rename, between rename and the store, and on other people's
directories. Names and contents together hold each pane once, in order.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from penstock.sinks import SinkError, read_jsonl, to_jsonl, to_parquet
from penstock.sinks.directory import MANIFEST, files_of
from penstock.store import StoreError
from penstock.testing import TestStream
from tests.sinks.support import COUNTS, LIVE, STREAM, steady


def ids_in(directory: Path) -> list[int]:
    """The pane ids in a directory, in the order of its files, each file checked against its name."""
    found = []
    for first, last, path in files_of(directory):
        rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ndjson(path)
        ids = rows["pane"].to_list()
        assert (ids[0], ids[-1]) == (first, last)
        found += ids
    return found


class Dies(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("make", [to_jsonl, to_parquet])
def test_files_are_bounded_and_hold_every_pane_once(feed, tmp_path, make):
    fed = feed()
    delivery = fed.delivery(out=make(tmp_path / "out", rows_per_file=7))
    for _ in range(20):
        fed.step()
        delivery.deliver()
    delivery.close()
    assert ids_in(tmp_path / "out") == fed.ids()
    assert fed.store.position("out") == fed.ids()[-1]
    fed = feed(name="again")
    fed.all()
    fed.deliver(out=make(tmp_path / "at_once", rows_per_file=7))
    assert ids_in(tmp_path / "at_once") == fed.ids()
    sizes = [last - first + 1 for first, last, _ in files_of(tmp_path / "at_once")]
    assert set(sizes[:-1]) == {7}
    assert sizes[-1] <= 7


@pytest.mark.parametrize("step", ["os.fsync", "os.rename"])
@pytest.mark.parametrize("make", [to_jsonl, to_parquet])
def test_dying_before_the_rename_leaves_nothing_but_a_temporary_file(feed, tmp_path, monkeypatch, make, step):
    fed, sink = feed(), make(tmp_path / "out", rows_per_file=5)
    fed.step(4)
    fed.deliver(out=sink)
    before = ids_in(tmp_path / "out")
    fed.all()
    with monkeypatch.context() as patch:
        patch.setattr(f"penstock.sinks.directory.{step}", _dies)
        dying = fed.delivery(out=sink)
        assert dying.deliver() == 0
        assert isinstance(dying.failures["out"].error, Dies)
        dying.close()
    assert ids_in(tmp_path / "out") == before
    assert list((tmp_path / "out").glob(".writing*"))
    fed.delivery(out=sink).close()
    assert not list((tmp_path / "out").glob(".writing*"))
    fed.deliver(out=sink)
    assert ids_in(tmp_path / "out") == fed.ids()


def _dies(*arguments: object) -> None:
    raise Dies


def test_a_file_whose_rename_is_not_known_to_be_safe_is_written_again(feed, tmp_path, monkeypatch):
    fed, sink = feed(), to_jsonl(tmp_path / "out")
    fed.step(2)
    delivery = fed.delivery({"retry": (0.0, 0.0)}, out=sink)
    fsync, failing = os.fsync, [True]

    def fails_on_the_directory(handle: int) -> None:
        if failing and os.path.isdir(f"/proc/self/fd/{handle}") and list((tmp_path / "out").glob("*.jsonl")):
            failing.pop()
            raise OSError("the disk is gone")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fails_on_the_directory)
    assert delivery.deliver() == 0
    fed.step(2)
    delivery.deliver()
    delivery.close()
    assert ids_in(tmp_path / "out") == fed.ids()


@pytest.mark.parametrize("make", [to_jsonl, to_parquet])
def test_dying_between_the_rename_and_the_store_repeats_nothing(feed, tmp_path, make):
    fed, sink = feed(), make(tmp_path / "out", rows_per_file=5)
    for _ in range(10):
        fed.step(2)
        dying = fed.delivery({"commit_positions": _dies}, out=sink)
        dying.deliver()
        assert isinstance(dying.failures["out"].error, Dies)
        dying.close()
        assert fed.store.position("out") == 0
    fed.deliver(out=sink)
    assert ids_in(tmp_path / "out") == fed.ids()
    assert fed.store.position("out") == fed.ids()[-1]


def test_what_was_taken_is_not_written_again_when_only_the_store_failed(feed, tmp_path):
    fed, told = feed(), []

    def fails_twice(positions: dict[str, int], deliveries: object) -> None:
        told.append(positions["out"])
        if len(told) <= 2:
            raise Dies

    fed.step(5)
    delivery = fed.delivery({"commit_positions": fails_twice, "retry": (0.0, 0.0)}, out=to_jsonl(tmp_path / "out"))
    for _ in range(4):
        delivery.deliver()
    delivery.close()
    assert told == [fed.ids()[-1]] * 3
    assert ids_in(tmp_path / "out") == fed.ids()


def test_files_that_a_reader_took_away_do_not_come_again(feed, tmp_path):
    fed, sink = feed(), to_jsonl(tmp_path / "out")
    fed.step(5)
    fed.deliver(out=sink)
    before = fed.ids()
    for _, _, path in files_of(tmp_path / "out"):
        path.unlink()
    fed.all()
    fed.deliver(out=sink)
    assert ids_in(tmp_path / "out") == fed.ids()[len(before) :]


def test_panes_that_a_mode_leaves_out_make_no_file(feed, tmp_path):
    fed = feed(LIVE, TestStream(STREAM).add(("a", 1, "12:00:01")).add(("a", 1, "12:00:11")))
    delivery = fed.delivery(out=to_jsonl(tmp_path / "out", mode="append"))
    fed.step()
    assert delivery.deliver() == 0
    assert files_of(tmp_path / "out") == []
    fed.step()
    assert delivery.deliver() == 1
    delivery.close()
    assert [row["n"] for row in read_jsonl(tmp_path / "out")] == [1]


@pytest.mark.parametrize("make", [to_jsonl, to_parquet])
def test_a_renamed_sink_goes_on_in_its_directory_and_brings_no_pane_twice(feed, tmp_path, make):
    fed = feed()
    fed.deliver_through_a_rename(lambda: make(tmp_path / "out"))
    assert ids_in(tmp_path / "out") == fed.ids()
    with pytest.raises(StoreError, match="the sink 'second' was named 'first' before"):
        fed.delivery(first=make(tmp_path / "others"))
    fed.store.records.rename_sink("second", "third")
    with pytest.raises(SinkError, match="files of another sink"):
        fed.delivery(second=make(tmp_path / "out"))
    fed.store.records.rename_sink("third", "first")
    fed.step(2)
    fed.deliver(first=make(tmp_path / "out"))
    assert ids_in(tmp_path / "out") == fed.ids()
    fed.store.records.rename_sink("first", "second")
    fed.store.forget_sink("second")
    fed.deliver(first=make(tmp_path / "others"))
    assert ids_in(tmp_path / "others") == fed.ids()


# Whose directory it is


def test_a_directory_of_another_sink_view_mode_or_format_is_refused(feed, tmp_path):
    fed, out = feed(), tmp_path / "out"
    fed.step()
    fed.deliver(out=to_jsonl(out))
    assert json.loads((out / MANIFEST).read_text())["view"] == "v"
    for name, sink, what in [
        ("other", to_jsonl(out), "sink"),
        ("out", to_jsonl(out, mode="append"), "mode"),
        ("out", to_parquet(out), "format"),
    ]:
        with pytest.raises(SinkError, match=f"files of another sink\n.*its {what} is"):
            fed.delivery(**{name: sink})
    changed = feed(COUNTS, name="changed")
    changed.view = STREAM.group_by("k").agg(n=changed.view.aggregates[0][1])
    with pytest.raises(SinkError, match="its values is"):
        changed.delivery(out=to_jsonl(out))
    fed.deliver(out=to_jsonl(out, rows_per_file=3))  # how many rows a file has may change


def test_files_without_a_manifest_are_refused(feed, tmp_path):
    fed = feed()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "000000000001-000000000002.jsonl").touch()
    with pytest.raises(SinkError, match="without a manifest"):
        fed.delivery(out=to_jsonl(tmp_path / "out"))


def test_a_store_that_started_over_is_refused_before_its_ids_are_mistaken_for_known_ones(feed, tmp_path):
    fed, sink = feed(), to_jsonl(tmp_path / "out")
    fed.step(3)
    fed.deliver(out=sink)
    fresh = feed(name="fresh", script=steady(20))
    with pytest.raises(SinkError, match="the store has fired 0 only"):
        fresh.delivery(out=sink)
    later = feed(name="later", script=TestStream(STREAM, clock="12:34", steps=steady(20).steps))
    later.all()
    delivery = later.delivery(out=sink)
    delivery.deliver()
    assert "panes of another store" in str(delivery.failures["out"].error)
    delivery.close()
    assert ids_in(tmp_path / "out") == fed.ids()


def test_a_directory_has_one_writer(feed, tmp_path):
    fed = feed()
    delivery = fed.delivery(out=to_jsonl(tmp_path / "out"))
    with pytest.raises(SinkError, match="another sink or process writes into"):
        fed.delivery(out=to_jsonl(tmp_path / "out"))
    delivery.close()
    fed.delivery(out=to_jsonl(tmp_path / "out")).close()


def test_a_directory_that_cannot_be_made_is_refused(feed, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot use the directory"):
        feed().delivery(out=to_jsonl(tmp_path / "file" / "out"))
