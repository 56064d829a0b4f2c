"""Savepoints of apps whose panes are in files: whole, pinned while they are taken, and restored elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.history.events.pins import needed_from
from penstock.history.savepoints import SavepointError, create, restore
from penstock.kernel.plan import Plan
from penstock.state.sweep import sweep_orphans, sweep_panes
from penstock.store import SqliteStore
from tests import outbox
from tests.faults.segments import files_of
from tests.history.savepoints.support import NOON, Written
from tests.store.test_pane_files import VIEW, count


@pytest.fixture
def app(written) -> Written:
    made: Written = written(2)
    made.store.prepare({"by_word": Plan(VIEW)})
    made.store.shard("by_word", 4)
    count(made.store, "hello", NOON)
    return made


def panes_of(directory: Path) -> list[tuple[object, ...]]:
    store = SqliteStore.open(directory)
    store.lock()
    rows = outbox.panes(store).rows()
    assert sweep_orphans(store, frozenset) == 0
    store.close()
    return rows


def test_a_savepoint_has_the_files_of_panes_that_are_listed(app: Written, tmp_path: Path):
    fired = outbox.panes(app.store).rows()
    panes = {file.path for file in app.store.needed_pane_files()}
    point = create(app.directory, "a")
    assert len(panes) > 1
    assert panes <= files_of(point.path / "state")
    app.store.trim_outbox(1 << 60)
    assert sweep_panes(app.store, 1 << 60) == len(panes)
    restore(point, tmp_path / "other")
    assert panes_of(tmp_path / "other") == fired != []


def test_files_that_are_trimmed_while_a_savepoint_is_taken_stay_until_it_is_done(app: Written, tmp_path, monkeypatch):
    fired = outbox.panes(app.store).rows()
    module = sys.modules[create.__module__]
    copied, swept = module.copy_store, []

    def copy_then_trim(source: Path, target: Path) -> None:
        copied(source, target)
        count(app.store, "world", NOON + 20)
        app.store.trim_outbox(1 << 60)
        swept.append(sweep_panes(app.store, 1 << 60, 0, needed_from(app.directory, NOON)))
        swept.append(sweep_orphans(app.store, frozenset))

    monkeypatch.setattr(module, "copy_store", copy_then_trim)
    point = create(app.directory, "a")
    assert swept == [0, 0]
    restore(point, tmp_path / "other")
    assert panes_of(tmp_path / "other") == fired
    assert sweep_panes(app.store, 1 << 60, 0) > 0  # the pin is gone


def test_a_missing_file_of_panes_gives_no_savepoint(app: Written):
    (Path(app.store.segments_at) / app.store.needed_pane_files()[0].path).unlink()
    with pytest.raises(SavepointError, match="missing"):
        create(app.directory, "a")
    assert list((app.directory / "savepoints").iterdir()) == []
