"""A savepoint has the history's files of its moment, and an app that goes on elsewhere has all history."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from penstock.history import savepoints
from penstock.history.events.compact import Compaction, Rules
from penstock.history.events.event_history import EventHistory
from penstock.history.events.verify import verify
from penstock.model.time import duration
from tests.history.events.support import NOW, App, rows


def filled(app: App) -> None:
    for number in range(5):
        app.epoch(rows((number, "a", number), first=number))


def test_history_is_there_after_a_restore_elsewhere_whatever_the_first_app_does(app, tmp_path: Path):
    filled(app)
    before = app.held()
    made = savepoints.create(tmp_path / "state", "one")
    assert sum(name.startswith("history/") for name in made.files) == 5
    app.epoch(rows((9, "a", 9), first=9))
    Compaction(app.history, Rules(least=2, behind=0)).run(NOW)
    Compaction(app.history, Rules(least=2, behind=0)).run(NOW + duration("2 days"))  # the old files are gone there
    savepoints.restore(made, tmp_path / "other")
    other = App(tmp_path / "other")
    try:
        assert_frame_equal(other.held(), before)
        assert other.history.has("orders")
        assert not list(verify(other.history))
        other.epoch(rows((7, "b", 7), first=7))
        assert other.held()["id"].to_list() == [0, 1, 2, 3, 4, 7]
        assert app.held()["id"].to_list() == [0, 1, 2, 3, 4, 9]
    finally:
        other.close()


def test_a_restore_in_place_moves_the_newer_files_aside(app, tmp_path: Path):
    filled(app)
    made = savepoints.create(tmp_path / "state", "one")
    app.epoch(rows((9, "a", 9), first=9))
    app.close()
    aside = savepoints.restore(made, tmp_path / "state", force=True)
    assert aside is not None
    assert len(list((aside / "history").rglob("*.parquet"))) == 6
    again = App(tmp_path / "state")
    assert again.held()["id"].to_list() == [0, 1, 2, 3, 4]
    again.close()


def test_a_damaged_file_of_the_history_is_noticed(app, tmp_path: Path):
    filled(app)
    made = savepoints.create(tmp_path / "state", "one", to=tmp_path / "copy")
    name = next(name for name in made.files if name.startswith("history/"))
    data = bytearray((tmp_path / "copy" / name).read_bytes())
    data[40] ^= 1
    (tmp_path / "copy" / name).unlink()  # the link, and not the file that the app has
    (tmp_path / "copy" / name).write_bytes(data)
    with pytest.raises(savepoints.SavepointError, match="damaged"):
        savepoints.restore(made, tmp_path / "other")


def test_a_history_elsewhere_stays_there_and_each_app_writes_into_its_own_folder(tmp_path: Path):
    from penstock.store import SqliteStore

    app = App(tmp_path / "state", history_at=str(tmp_path / "lake"))
    filled(app)
    home = app.history.home
    made = savepoints.create(tmp_path / "state", "one")
    assert not any(name.startswith("history/") for name in made.files)
    savepoints.restore(made, tmp_path / "other")
    store = SqliteStore.open(tmp_path / "other")
    store.lock()
    other = EventHistory(store)
    assert other.place.location == str(tmp_path / "lake")
    assert other.home != home
    assert other.past(app.stream).read().height == 5
    store.close()
    app.close()
