"""Savepoints of apps with views in segments: whole, pinned while they are taken, checked, and restored anywhere."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

from penstock.history.events.pins import needed_from
from penstock.history.savepoints import SavepointError, create, find, restore
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.model.commits import Event
from penstock.model.time import BEGINNING
from penstock.state.compact import Merge
from penstock.state.layout import layouts
from penstock.state.segment import ALL, SegmentFile, paths
from penstock.state.sweep import sweep_orphans, sweep_replaced
from penstock.store import SqliteStore
from tests.history.savepoints.support import BY_PAGE, NOON, VISITS, Written
from tests.store.sharded import commit_step, table


def deltas(pages: str) -> list[pl.DataFrame]:
    events = [Event("visits", {"page": page, "at": NOON + number}, 0, number) for number, page in enumerate(pages)]
    return [
        reduce(Plan(BY_PAGE), "visits", admit(VISITS, events_frame(VISITS, events, 0), NOON).rows, BEGINNING).deltas
    ]


def count(store: SqliteStore, pages: str, now: int = NOON) -> None:
    commit_step(store, "by_page", deltas(pages), Time(BEGINNING, BEGINNING, now, lambda _: BEGINNING))


def counts(store: SqliteStore) -> dict[str, int]:
    return dict(table(store, "by_page").select("page", "n").rows())


def compact(store: SqliteStore, now: int) -> None:
    view = store.sharded("by_page")
    assert view is not None
    file = SegmentFile(view.root, f"{store.token}-compacted-{now}.arrow")
    Merge(view.root, layouts(view.plan)["rows"], view.segments, is_oldest=True).write(file, [ALL])
    assert store.replace_segments("by_page", view.segments, file.close(), now)


def opened(directory: Path) -> SqliteStore:
    store = SqliteStore.open(directory)
    store.lock()
    store.prepare({"by_page": Plan(BY_PAGE)})
    return store


@pytest.fixture
def app(written) -> Written:
    made: Written = written(2)
    made.store.shard("by_page", 4)
    count(made.store, "aab")
    count(made.store, "bc")
    return made


def test_a_savepoint_has_the_segments_that_are_listed_and_is_restored_elsewhere(app, tmp_path):
    compact(app.store, NOON + 5)
    count(app.store, "c")
    point = create(app.directory, "a")
    saved = {path.name for path in (point.path / "state").iterdir()}
    assert saved == set(paths(app.store.sharded("by_page").segments))
    assert {f"state/{name}" for name in saved} <= set(point.files)
    before = counts(app.store)
    count(app.store, "zzz")
    compact(app.store, NOON + 9)
    sweep_replaced(app.store, 1 << 60)
    restore(point, tmp_path / "other")
    store = opened(tmp_path / "other")
    assert counts(store) == before == {"a": 2, "b": 2, "c": 2}
    count(store, "a")  # it goes on
    assert counts(store)["a"] == 3
    assert sweep_orphans(store, frozenset) == 0
    store.close()


def test_a_state_that_is_there_is_moved_aside_with_its_segments(app):
    point = create(app.directory, "a")
    before = counts(app.store)
    count(app.store, "zzz")
    app.store.close()
    aside = restore(point, app.directory, force=True)
    assert (aside / "state").is_dir()
    store = opened(app.directory)
    assert counts(store) == before
    store.close()


def test_files_that_are_replaced_while_a_savepoint_is_taken_stay_until_it_is_done(app, monkeypatch, tmp_path):
    module = sys.modules[create.__module__]
    copied, swept = module.copy_store, []

    def copy_then_compact(source: Path, target: Path) -> None:
        copied(source, target)
        compact(app.store, NOON + 20)
        needed = needed_from(app.directory, NOON)
        swept.append(sweep_replaced(app.store, 1 << 60, 0, needed))
        swept.append(sweep_orphans(app.store, frozenset))

    monkeypatch.setattr(module, "copy_store", copy_then_compact)
    point = create(app.directory, "a")
    assert swept == [0, 0]
    restore(point, tmp_path / "other")
    store = opened(tmp_path / "other")
    assert counts(store) == {"a": 2, "b": 2, "c": 1}
    store.close()
    assert sweep_replaced(app.store, 1 << 60, 0) > 0  # the pin is gone


@pytest.mark.parametrize("harm", ["changed", "cut off", "gone"])
def test_a_damaged_segment_gives_no_savepoint(app, harm):
    spoil(Path(app.store.segments_at) / app.store.sharded("by_page").segments[-1].path, harm)
    with pytest.raises(SavepointError, match="segment"):
        create(app.directory, "a")
    assert list((app.directory / "savepoints").iterdir()) == []


@pytest.mark.parametrize("harm", ["changed", "cut off", "gone"])
def test_a_savepoint_with_a_damaged_segment_is_not_restored(app, tmp_path, harm):
    point = create(app.directory, "a")
    copy = tmp_path / "copy"
    shutil.copytree(point.path, copy)
    spoil(next((copy / "state").iterdir()), harm)
    with pytest.raises(SavepointError, match="damaged"):
        restore(find("a", app.directory, copy), tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["lock"]


def spoil(path: Path, harm: str) -> None:
    whole = path.read_bytes()
    path.unlink()
    if harm == "changed":
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    elif harm == "cut off":
        path.write_bytes(whole[:-100])


def test_a_view_that_is_dropped_while_a_savepoint_is_restored_leaves_files_for_the_sweep(app, tmp_path):
    restore(create(app.directory, "a"), tmp_path / "other", drop=["by_page"])
    store = opened(tmp_path / "other")
    assert store.sharded("by_page") is None
    assert sweep_replaced(store, 1 << 60) > 0
    assert list((tmp_path / "other" / "state").iterdir()) == []
    store.close()
