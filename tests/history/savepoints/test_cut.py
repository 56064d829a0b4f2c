"""A cut is consistent whenever it is taken: the checkpoint has the epochs of the store's copy, no more and no less."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.history.savepoints import Savepoint, SavepointError, create, drop, find, listed
from penstock.history.savepoints.checkpoints import Checkpoints
from penstock.store import Commit, Reader, StoreError
from tests.history.savepoints.support import HEAD, NOON, Written, names


def check(point: Savepoint, epoch: int) -> None:
    """The savepoint ends with this epoch, in all its parts."""
    folder = point.path / "checkpoints" / "visits"
    reader = Reader(point.path)
    progress = reader.progress("q-1")
    assert progress is not None
    assert (progress.epoch, reader.counters()["visits.events"]) == (epoch, 10 * (epoch + 1))
    reader.close()
    assert point.streams["visits"].epoch == epoch
    assert names(folder / "offsets")[-1] == str(epoch)
    assert int(names(folder / "commits")[-1]) in (epoch - 1, epoch)
    assert names(folder / "sources" / "0")[-1].split(".")[0] == str(epoch)


@pytest.mark.parametrize("steps", [["announce"], ["announce", "commit"], ["announce", "commit", "done"], []])
def test_between_any_two_steps_of_an_epoch_the_cut_ends_with_the_last_commit(written, steps):
    app: Written = written(3)
    for step in steps:
        getattr(app, step)()
    check(create(app.directory, "a"), 3 if "commit" in steps else 2)


def test_a_stream_without_a_commit_has_an_empty_checkpoint(written):
    app: Written = written()
    app.announce()
    point = create(app.directory, "a")
    assert point.streams["visits"].epoch == -1
    assert names(point.path / "checkpoints" / "visits" / "offsets") == []
    assert names(point.path / "checkpoints" / "visits" / "sources" / "0") == []
    assert (point.path / "checkpoints" / "visits" / "metadata").exists()


def test_a_compacted_log_of_files_is_cut_before_and_after_the_compaction(written):
    app: Written = written(9)
    app.announce()  # the log of files is compacted before the epoch is committed
    before = create(app.directory, "before")
    check(before, 8)
    assert "9.compact" not in names(before.path / "checkpoints" / "visits" / "sources" / "0")
    app.commit()
    after = create(app.directory, "after")
    check(after, 9)
    for number in range(9):  # Spark deletes what was compacted
        (app.checkpoint / "sources" / "0" / str(number)).unlink()
    check(create(app.directory, "later"), 9)
    app.run(12)
    folder = create(app.directory, "last").path / "checkpoints" / "visits"
    assert names(folder / "offsets") == names(folder / "commits") == ["20", "21"]
    assert names(folder / "sources" / "0") == ["19.compact", "20", "21"]


def test_savepoints_while_epochs_run_are_all_consistent(written):
    app: Written = written(1)
    stop, failed = threading.Event(), []

    def go_on() -> None:
        try:
            while not stop.wait(0.002):
                app.run(1)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        points = [create(app.directory, f"p{number}") for number in range(6)]
    finally:
        stop.set()
        thread.join()
    assert not failed
    for point in points:
        check(point, point.commit - 1)
    assert points[-1].commit > points[0].commit


def test_what_spark_deletes_while_the_store_is_copied_is_kept(written, monkeypatch):
    app: Written = written(3)

    def copy_store(source: Path, target: Path) -> None:
        copied(source, target)
        shutil.rmtree(app.checkpoint / "offsets")
        shutil.rmtree(app.checkpoint / "sources")

    module = sys.modules[create.__module__]  # the package has a function of its name
    copied = module.copy_store
    monkeypatch.setattr(module, "copy_store", copy_store)
    check(create(app.directory, "a"), 2)


def test_a_stream_made_anew_meanwhile_is_cut_again(written, monkeypatch):
    app: Written = written(3)
    looks, copy = [], Checkpoints.copy

    def copy_and_change(self: Checkpoints) -> None:
        copy(self)
        looks.append(1)
        if len(looks) == 1:
            shutil.rmtree(app.checkpoint)
            app.query, app.epoch = "q-2", -1
            app.put("metadata", json.dumps({"id": "q-2"}))
            app.run(2)

    monkeypatch.setattr(Checkpoints, "copy", copy_and_change)
    point = create(app.directory, "a")
    assert (point.streams["visits"].query, point.streams["visits"].epoch) == ("q-2", 1)
    assert names(point.path / "checkpoints" / "visits" / "offsets") == ["0", "1"]


def test_a_source_that_is_no_log_of_files_keeps_what_it_has(written):
    app: Written = written()
    app.put("sources/0/0", '\0v1\n{"visits":{"0":5}}')  # Kafka: where the query began
    first = create(app.directory, "first")
    assert names(first.path / "checkpoints" / "visits" / "sources" / "0") == ["0"]
    for epoch in range(3):
        offsets = json.dumps({"visits": {"0": 10 * epoch}})
        app.put(f"offsets/{epoch}", HEAD + offsets)
        if epoch < 2:
            app.store.commit(Commit("epoch", NOON, "q-1", epoch, offsets))
    point = create(app.directory, "a")
    folder = point.path / "checkpoints" / "visits"
    assert (point.streams["visits"].epoch, point.streams["visits"].offsets) == (1, '{"visits": {"0": 10}}')
    assert (names(folder / "offsets"), names(folder / "sources" / "0")) == (["0", "1"], ["0"])


@pytest.mark.parametrize("lost", ["offsets/2", "offsets/1", "sources/0/1"])
def test_a_checkpoint_that_lacks_what_the_store_has_gives_no_savepoint(written, lost):
    app: Written = written(3)
    (app.checkpoint / lost).unlink()
    with pytest.raises(SavepointError, match="do not belong together"):
        create(app.directory, "a")
    assert list((app.directory / "savepoints").iterdir()) == []


def test_other_offsets_than_the_stores_give_no_savepoint(written):
    app: Written = written(3)
    app.put("offsets/2", 'v1\n{}\n{"logOffset":1}')
    with pytest.raises(SavepointError, match="do not belong together"):
        create(app.directory, "a")


def test_state_of_sparks_own_comes_along_up_to_what_the_last_epoch_left(written):
    app: Written = written(3)
    for version in range(1, 6):
        app.put(f"state/0/1/{version}.changelog", "…")
        app.put(f"state/0/1/{version}_0a-1b.zip", "…")
    app.put("state/0/_metadata/metadata", "v1")
    app.put("state/0/1/SSTs/00001-abc.sst", "…")
    point = create(app.directory, "a")
    found = {name.split("/state/", 1)[1] for name in point.files if "/state/" in name}
    versions = {f"0/1/{version}{end}" for version in (1, 2, 3) for end in (".changelog", "_0a-1b.zip")}
    assert found == {*versions, "0/_metadata/metadata", "0/1/SSTs/00001-abc.sst"}


def test_the_manifest_says_what_there_is(written, tmp_path):
    app: Written = written(3)
    app.store.delivered({"out": 0})
    point = create(app.directory, "a", to=tmp_path / "elsewhere" / "point", app="shop")
    assert point.path == tmp_path / "elsewhere" / "point"
    assert (point.name, point.app, point.commit, point.panes, point.sinks) == ("a", "shop", 3, 0, {"out": 0})
    assert point.views["by_page"].definition == app.store.views()["by_page"]
    assert set(point.files) == {
        path.relative_to(point.path).as_posix() for path in point.path.rglob("*") if path.is_file()
    } - {"manifest.json"}
    assert Savepoint.read(point.path) == point
    assert find("a", app.directory, tmp_path / "elsewhere" / "point") == point
    with pytest.raises(SavepointError, match="'a', not 'b'"):
        find("b", app.directory, point.path)


def test_savepoints_are_listed_and_dropped(written):
    app: Written = written(2)
    create(app.directory, "b")
    create(app.directory, "a")
    with pytest.raises(SavepointError, match="already"):
        create(app.directory, "a")
    assert [name for name, _ in listed(app.directory)] == ["b", "a"]
    (app.directory / "savepoints" / "b" / "manifest.json").write_text("{")
    assert [(name, point is None) for name, point in listed(app.directory)] == [("a", False), ("b", True)]
    drop("b", app.directory)
    assert [name for name, _ in listed(app.directory)] == ["a"]
    with pytest.raises(Exception, match="unknown savepoint 'b'"):
        drop("b", app.directory)


@pytest.mark.parametrize("name", ["", "..", ".a", "a/b", "a b"])
def test_names_that_are_no_folders_are_refused(written, name):
    with pytest.raises(SavepointError, match="name"):
        create(written(1).directory, name)


def test_a_killed_process_leaves_nothing_that_is_taken_for_a_savepoint(written):
    app: Written = written(1)
    with subprocess.Popen(["true"]) as gone:
        pass
    left = app.directory / "savepoints" / f".a.{gone.pid}.part"
    left.mkdir(parents=True)
    assert list(listed(app.directory)) == []
    create(app.directory, "a")
    assert not left.exists()


def test_there_must_be_a_store(tmp_path):
    with pytest.raises(StoreError, match="no store"):
        create(tmp_path, "a")
