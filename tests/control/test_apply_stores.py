"""Plans done in the store of a stopped app, for all pairs of versions, without Spark: nothing has to be computed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from penstock.app import App
from penstock.control.applying import Application
from penstock.control.planning import planned, recorded_definitions
from penstock.model.commits import Event
from penstock.model.stream import Stream
from penstock.model.time import SECOND, instant
from penstock.model.view import View
from penstock.plans.definition import by_identity
from penstock.plans.of_app import definitions_of, recorded
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.run import Run
from penstock.runtime.script import _rows
from penstock.store import SqliteStore, StoreError
from tests.plans.apps import VERSIONS, app_of

PAIRS = list(product(VERSIONS, VERSIONS))
NOON = instant("2024-05-01T12:00:00Z")


class Killed(Exception):
    """What a test raises where a process could die."""


@contextmanager
def no_run(streams: Mapping[str, Stream], views: Mapping[str, View]) -> Iterator[Run]:
    raise AssertionError(f"a run was asked for: {sorted(views)}")
    yield


def opened(root: Path) -> SqliteStore:
    store = SqliteStore.open(root / "state")
    store.lock()
    return store


def engine_of(app: App, store: SqliteStore) -> Engine:
    """The app on a store, as a start makes it."""
    engine = Engine(app.streams, store, NOON, lambda name: True)
    engine.registry.keep(app.views)
    store.note_definitions(recorded(app).to_json())
    return engine


def ran(name: str, root: Path) -> None:
    """A version of the app has run, and has had two visits."""
    app, store = app_of(name, root), opened(root)
    engine = engine_of(app, store)
    visits = app.streams["visits"]
    row = {"page": "/a", "user": "u", "ms": 20, "at": NOON}
    events = [Event("visits", {**dict.fromkeys(visits.schema.names), **row}, 0, number) for number in range(2)]
    columns = needed(visits, engine.registry.lowered)
    rows = _rows(visits, events).select([*columns, "__partition", "__offset"])
    engine.epoch("visits", columns, rows, EpochOrigin("visits", 0, "0", decoded=True), NOON + SECOND)
    store.close()


def contents(root: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that a store holds, but for the count of its writers."""
    store = SqliteStore.open(root / "state")
    tables = store.query("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name")["name"]
    found = {table: sorted(store.query(f'SELECT * FROM "{table}"').rows(), key=repr) for table in tables}
    store.close()
    found["__meta"] = [row for row in found["__meta"] if row[0] != "token"]
    return found


def rows_of(store: SqliteStore) -> dict[str, int]:
    return {view: store.query(f'SELECT * FROM "{view}"').height for view in store.views()}


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_after_a_plan_is_done_the_app_starts_with_the_new_file(before: str, after: str, tmp_path: Path) -> None:
    ran(before, tmp_path)
    app, store = app_of(after, tmp_path), opened(tmp_path)
    had, plan = rows_of(store), planned(app, store)
    assert not plan.by("fill", "replace"), "without a history nothing is computed"
    assert Application(app, store, plan, no_run).do() == []
    assert planned(app, store).changes == ()
    engine_of(app, store)
    assert set(store.views()) == set(app.views)
    assert recorded_definitions(store) == by_identity(definitions_of(app))
    names = {change.was or change.name: change.name for change in plan.by("rename") if change.kind == "view"}
    lost = {change.name for change in plan.by("drop", "rebuild") if change.kind == "view"}
    now = rows_of(store)
    for view, rows in had.items():
        if view not in lost:
            assert now[names.get(view, view)] == rows, "what is not made again keeps its rows"
        elif view in app.views:
            assert now[view] == (1 if view == "total" else 0), "a view without keys and windows has one row"
    store.close()


@pytest.mark.parametrize(("before", "after"), PAIRS[::7])
def test_a_plan_that_fails_at_its_end_changes_nothing(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(before, tmp_path)
    app, store = app_of(after, tmp_path), opened(tmp_path)
    there = contents(tmp_path)

    def die(definitions: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store, "note_graph", die)
        with pytest.raises(Killed):
            Application(app, store, planned(app, store), no_run).do()
    assert contents(tmp_path) == there
    Application(app, store, planned(app, store), no_run).do()
    engine_of(app, store)
    store.close()


def die_in_the_middle(root: Path, after: str) -> None:
    app, store = app_of(after, root), opened(root)
    store.note_graph = lambda graph: os._exit(9)  # type: ignore[method-assign]
    Application(app, store, planned(app, store), no_run).do()


@pytest.mark.parametrize(
    ("before", "after"), [("an operator", "a renamed view"), ("a sink", "two streams"), ("two streams", "no view")]
)
def test_a_process_that_is_killed_in_the_middle_has_changed_nothing(before: str, after: str, tmp_path: Path) -> None:
    ran(before, tmp_path)
    there = contents(tmp_path)
    process = multiprocessing.get_context("forkserver").Process(target=die_in_the_middle, args=(tmp_path, after))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert contents(tmp_path) == there
    app, store = app_of(after, tmp_path), opened(tmp_path)
    Application(app, store, planned(app, store), no_run).do()
    engine_of(app, store)
    store.close()


def test_a_part_that_fails_and_is_ignored_ends_the_whole_transaction(tmp_path: Path) -> None:
    ran("one view", tmp_path)
    store = opened(tmp_path)
    there = contents(tmp_path)

    def ignore_a_failure() -> None:
        with store.together():
            store.note_definitions("{}")
            with suppress(StoreError):
                store.drop("nothing")

    with pytest.raises(StoreError, match="a part of a transaction has failed"):
        ignore_a_failure()
    assert contents(tmp_path) == there
    with store.together():
        store.drop("by_page")
    assert store.views() == {}
    store.close()


def test_a_renamed_view_keeps_its_generations_and_their_signatures(tmp_path: Path) -> None:
    ran("one view", tmp_path)
    store = opened(tmp_path)
    from penstock.control.planning import stored_view
    from penstock.runtime.commit.definitions import dumped

    view = app_of("one view", tmp_path).views["by_page"]
    code = dumped(store.directory, "by_page", view)
    store.generations.note_definition("by_page", repr(view), code, NOON)
    app = app_of("a renamed view", tmp_path)
    Application(app, store, planned(app, store), no_run).do()
    assert stored_view(store, "pages") == view
    assert store.generations_of("by_page") == []
    assert isinstance(store.query("SELECT * FROM pages"), pl.DataFrame)
    store.close()
