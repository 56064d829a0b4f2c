"""Checkpoints on any file system: what the driver does with them goes through fsspec where a URL names their place."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from penstock.history.savepoints import create
from penstock.history.savepoints.manifest import SavepointError
from penstock.store import SqliteStore, StoreError
from penstock.store.checkpoints import NOTE, Place, checkpoints, remember


@pytest.fixture(params=["path", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    named = {"path": str(tmp_path), "file": f"file://{tmp_path}", "memory": f"memory://{tmp_path}"}
    return Place(named[request.param]) / "with a space"


def test_files_are_read_and_removed_wherever_they_lie(place: Place):
    assert not place.exists()
    place.remove()
    files, path = fsspec.core.url_to_fs(place.at)
    files.makedirs(f"{path}/offsets")
    files.pipe_file(f"{path}/offsets/0", b"v1\n{}\n'7'")
    assert (place / "offsets" / "0").read_text() == "v1\n{}\n'7'"
    assert place.exists()
    with pytest.raises(FileNotFoundError):
        (place / "offsets" / "1").read_text()
    place.remove()
    assert not place.exists()


def test_spark_is_told_a_url_whatever_its_own_file_system_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert Place("state/checkpoints").url == f"file://{tmp_path}/state/checkpoints"
    assert Place("hdfs://names/app").url == "hdfs://names/app"
    assert (Place("file:///a/b").local, Place("hdfs://names/app").local) == (Path("/a/b"), None)


def test_a_place_that_was_given_is_known_in_the_next_run(tmp_path: Path):
    assert checkpoints(tmp_path) == Place(str(tmp_path / "checkpoints"))
    remember(tmp_path, checkpoints(tmp_path))
    assert not (tmp_path / NOTE).exists()
    given = checkpoints(tmp_path, "s3a://bucket/app")
    remember(tmp_path, given)
    assert checkpoints(tmp_path) == given == Place("s3a://bucket/app")
    assert checkpoints(tmp_path, tmp_path / "other") == Place(f"file://{tmp_path}/other")


def test_a_file_system_that_python_lacks_is_told(tmp_path: Path):
    with pytest.raises(StoreError, match="that this Python cannot read") as told:
        Place("nosuch://names/app").exists()
    assert "install fsspec's part for it" in str(told.value)


def test_a_savepoint_refuses_checkpoints_that_it_cannot_copy(tmp_path: Path):
    store = SqliteStore.open(tmp_path)
    store.lock()
    store.close()
    remember(tmp_path, Place("memory://far/away"))
    with pytest.raises(SavepointError, match="checkpoints lie at 'memory://far/away'"):
        create(tmp_path, "point")
    assert not (tmp_path / "savepoints" / "point").exists()
