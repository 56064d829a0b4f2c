"""Changes of an app while it runs, on Spark: all at once or nothing, and no event is lost or counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from penstock.control import Client, Live, RemoteError
from penstock.control.dropping import drop, no_longer_defined
from penstock.control.planning import planned
from penstock.control.starting import Apply
from penstock.control.trial import Trial
from penstock.errors import PenstockError
from penstock.history.batch.generation import Generation
from penstock.plans.plan import Plan
from penstock.runtime.run import Run
from penstock.store import Reader, SqliteStore
from penstock.store.view_generations import ViewGenerations
from tests.control.changing import Changing
from tests.control.support import Clock
from tests.plans.apps import VERSIONS

#: One way through the kinds of changes; the deep run takes every step from one version to another.
WAY = [
    "one view", "an added view", "another window", "a view over a changed view", "a view over a view", "an operator",
    "an operator by another key", "a renamed view", "another column", "two streams", "a sink",
    "a renamed view with a sink", "a renamed sink", "another target", "another trigger", "another watermark",
    "no view", "another input", "another folder",
]  # fmt: skip
LAST = "another folder"


def all_steps() -> list[str]:
    """A way that takes each step from one version to another one once, and ends with another folder.

    From there it would go back to files that were read before, which are then read again.
    """
    versions = VERSIONS.keys() - {LAST}
    left = {name: sorted(versions - {name}) for name in versions}
    way, trail = list[str](), ["one view"]
    while trail:  # Hierholzer's
        if left[trail[-1]]:
            trail.append(left[trail[-1]].pop())
        else:
            way.append(trail.pop())
    return [*way[::-1], LAST]


@pytest.fixture
def changing(tmp_path: Path, spark) -> Iterator[Changing]:
    app = Changing(tmp_path, spark, "one view")
    yield app
    app.stop()


def test_the_way_of_the_deep_run_takes_all_steps_once() -> None:
    way = all_steps()
    steps = list(pairwise(way))
    others = VERSIONS.keys() - {LAST}
    assert sorted(steps) == sorted(
        [*(pair for pair in product(others, others) if pair[0] != pair[1]), ("one view", LAST)]
    )
    assert set(WAY) == set(VERSIONS)


@pytest.mark.parametrize("way", [WAY, pytest.param(all_steps(), marks=pytest.mark.deep)], ids=["a way", "all steps"])
def test_a_running_app_goes_from_version_to_version(way: list[str], changing: Changing) -> None:
    changing.put(80)  # enough for a window to fire
    changing.check()
    for version in way[1:]:
        changing.put()  # on its way while the app changes
        changing.apply(version)
        changing.put()
        changing.check()


def ask_while(changing: Changing, sql: str, change: Callable[[], object]) -> list[object]:
    """What another process reads again and again during a change."""
    answers, over = list[object](), threading.Event()

    def read() -> None:
        reader = Reader(changing.root / "state")
        while not over.is_set():
            answers.append(reader.query(sql).item())
        reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        change()
    finally:
        over.set()
        thread.join()
    return answers


def test_what_is_computed_is_computed_beside_the_running_app_and_readers_see_no_gap(changing: Changing) -> None:
    changing.put(30)
    changing.check()
    heard: list[list[str]] = []
    sums = ask_while(
        changing, "SELECT sum(n) FROM by_page", lambda: heard.append(changing.apply("another window")[1])
    )  # fmt: skip
    assert set(sums) == {30}
    (phases,) = heard
    assert phases.index("by_page reading") < phases.index("pausing") < phases.index("by_page swapping")
    assert phases[-1] == "starting"
    changing.put()
    changing.check()


#: Where a change can fail, and what is replaced to make it fail there.
PLACES = {
    "trying": (Trial, "of"),
    "computing": (Generation, "computed"),
    "pausing": (Run, "halt"),
    "sinks": (Trial, "open_sinks"),
    "swapping": (ViewGenerations, "swap"),
    "changing": (SqliteStore, "note_graph"),
}


def failing_once(patch: pytest.MonkeyPatch, place: str, whole: Callable[..., object], state: Path) -> object:
    """What fails when it is called for the first time. A run ends first, and that of a trial does not count."""

    def fail(*arguments: Any, **options: Any) -> object:
        if place == "pausing":
            ended = whole(*arguments)
            if arguments[0].directory != state:
                return ended
        patch.undo()
        raise PenstockError(f"failed while {place}")

    return fail


def test_a_change_that_fails_at_any_step_leaves_the_app_as_it_was(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing.put()
    changing.check()
    for place, (owner, name) in PLACES.items():
        whole = getattr(owner, name)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing_once(patch, place, whole, changing.root / "state"))
            with pytest.raises(RemoteError, match=f"failed while {place}"):
                changing.apply("another window")
        changing.file.version = "one view"
        changing.put()
        changing.check()
        assert planned(changing.file.load(), changing.live.store).changes == ()
    changing.apply("another window")
    changing.check()


def test_an_app_that_cannot_start_with_what_was_applied_ends(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing.put()
    changing.check()

    def fail(run: Run) -> None:
        raise PenstockError("the broker is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "start", fail)
        with pytest.raises(
            RemoteError, match="the file is applied, and the app could not start with it: the broker is gone"
        ):
            changing.apply("an added view")
    with pytest.raises(PenstockError, match="the broker is gone"):
        changing.live.wait(1.0)
    changing.stop()
    changing.started()
    changing.put()
    changing.check()


def test_what_cannot_be_applied_is_refused_before_anything_has_changed(changing: Changing) -> None:
    changing.put()
    changing.check()
    with pytest.raises(RemoteError, match="has changed since the plan was made"):
        changing.apply("another window", plan="{}")
    with pytest.raises(RemoteError, match="the running app comes from"):
        changing.client.do("apply", file="/other.py", plan="{}")
    changing.file.has_other_modules = True  # on this machine that is no reason: workers are made again
    changing.apply("an added view")
    changing.put()
    changing.check()
    changing.live.stop()
    changing.client.close()
    other = Live(changing.file.load(), changing.root / "state", spark=changing.spark, clock=Clock()).start()
    try:
        with pytest.raises(RemoteError, match="was not started by penstock run with a file"):
            Client(changing.root / "state").do("apply", file=str(changing.file.path), plan="{}")
    finally:
        other.stop()
    changing.started()


def test_what_shells_have_made_stays_and_a_start_with_other_definitions_says_what_differs(changing: Changing) -> None:
    changing.put()
    changing.check()
    changing.client.ask("CREATE CONTINUOUS VIEW mine AS SELECT user, count(*) AS n FROM visits GROUP BY user")
    changing.apply("another window")
    assert changing.rows("mine") == {("u0", 1): 1, ("u1", 1): 1}
    reply = changing.client.ask(
        "CREATE OR REPLACE CONTINUOUS VIEW by_page AS SELECT page, window_start, window_end, count(*) AS n "
        "FROM TUMBLE(visits, at, INTERVAL 3 MINUTES) GROUP BY page, window_start, window_end"
    )
    assert "change it there too" in reply.message
    changing.client.ask("DROP VIEW mine")
    changing.stop()
    with pytest.raises(PenstockError, match=r"view 'by_page' has another .*window.*\(replacement\)"):
        changing.started()
    confirmed: list[Plan] = []
    changing.started(Apply(confirmed.append))
    assert [change.way for change in confirmed[0].changes] == ["replace"]
    changing.put()
    changing.check()
    changing.stop()
    changing.file.version = "no view"
    live = changing.started()
    assert any("view 'by_page' is no longer defined" in warning for warning in live.warnings)
    assert no_longer_defined(live.store) == ["by_page"]
    changing.stop()
    store = SqliteStore.open(changing.root / "state")
    store.lock()
    assert [(one.kind, one.name) for one in drop(store, ["by_page"])] == [("view", "by_page")]
    assert store.views() == {}
    with pytest.raises(PenstockError, match="unknown view, sink, stream or operator of the store 'by_page'"):
        drop(store, ["by_page"])
    store.close()
    changing.started()


@pytest.mark.parametrize("place", ["changing", pytest.param("starting", marks=pytest.mark.deep)])
def test_an_app_that_is_killed_while_it_changes_has_the_old_definitions_or_the_new_ones(
    place: str, tmp_path: Path, spark
) -> None:
    command = [sys.executable, "-m", "tests.control.killed_while_changing", str(tmp_path), place]
    killed = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    version = {"changing": "one view", "starting": "another window"}[place]
    changing = Changing(tmp_path, spark, version, visits=10)
    try:
        assert planned(changing.file.load(), changing.live.store).changes == ()
        changing.check()
        for name in ("another window", "an added view"):
            if name != version:
                changing.apply(name)
            changing.put()
            changing.check()
    finally:
        changing.stop()
