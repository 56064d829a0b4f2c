"""Joins, processors and patterns are exactly once: a step fails or a process dies, and the result stays the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dataflow.process_stream import processor_stream
from penstock.runtime.epoch.operator_job import OperatorJob
from tests.faults.operators import (
    REPLAY,
    STEPS,
    OperatorApp,
    OperatorPoints,
    compare,
    failing,
    made_steps,
)
from tests.faults.segments import Fault, copy_of
from tests.strategies import DEEP

EPOCHS = 8 if DEEP else 5
#: At which pass of a step a process dies. Later ones meet more state.
PASSES = (1, 2, 5, 13) if DEEP else (3,)
#: Steps that come only a few times.
RARE = tuple(step for step in STEPS if "compaction" in step or "merge" in step or "list" in step)
#: After a transaction only a process can die: nothing fails there before the memory has followed.
FAILING = [step for step in STEPS if not step.endswith(("its transaction", "the epoch", "a tick"))]
#: By default a process dies at these steps. The others are for the deep run.
DEADLY = STEPS if DEEP else STEPS[2:9:3] + RARE[1:2]
#: Operators without timers of the clock, which the history does not have, that read the sources.
BY_EVENTS = ("joined", "rises", "totals", "priced")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Path]], dict[str, list[Any]]]:
    """What is on disk at each step of a run, and what the run comes to."""
    root = tmp_path_factory.mktemp("images")
    passes: dict[str, int] = {}
    copies: dict[str, list[Path]] = {}

    def reach(step: str) -> None:
        passes[step] = passes.get(step, 0) + 1
        if passes[step] in ((1,) if step in RARE and not DEEP else PASSES) and step in DEADLY:
            copies.setdefault(step, []).append(copy_of(root / "app", root / f"{step} {passes[step]}"))

    with pytest.MonkeyPatch.context() as patch:
        app = OperatorApp(root / "app", made_steps(EPOCHS))
        OperatorPoints(patch, app, reach)
        app.run()
    assert passes.keys() >= set(STEPS), "each step came"
    result = app.checked()
    assert all(result.values()), "each part of the app has something to lose"
    return copies, result


@pytest.mark.parametrize("step", DEADLY)
def test_a_process_that_dies_leaves_enough_for_the_next_one(step: str, images: Any):
    copies, want = images
    for image in copies[step]:
        app = OperatorApp(image, made_steps(EPOCHS))
        app.run()
        compare(app.checked(), want)


@pytest.mark.parametrize(
    ("few_rows", "restarts"), [(20_000, True), (0, False)], ids=["on the driver, restarted", "in tasks, as it is"]
)
def test_an_app_goes_on_when_each_step_has_failed_once(few_rows: int, restarts: bool, tmp_path: Path, images: Any):
    left = dict.fromkeys(FAILING, 1) | {step: 3 for step in FAILING if "operator" in step or "made rows" in step}
    with pytest.MonkeyPatch.context() as patch:
        app = OperatorApp(tmp_path, made_steps(EPOCHS), few_rows=few_rows)
        OperatorPoints(patch, app, failing(left))
        app.run(Fault, app.restart if restarts else lambda: None)
    assert not left, "each step has failed"
    compare(app.checked(), images[1])


@pytest.mark.deep
@pytest.mark.parametrize("passes", [1, 4, 9])
@pytest.mark.parametrize("step", [step for step in FAILING if step not in RARE])
def test_an_app_goes_on_when_a_step_has_failed(step: str, passes: int, tmp_path: Path, images: Any):
    left = {step: passes}
    with pytest.MonkeyPatch.context() as patch:
        app = OperatorApp(tmp_path, made_steps(EPOCHS))
        OperatorPoints(patch, app, failing(left))
        app.run(Fault)
    assert not left
    compare(app.checked(), images[1])


class Killed(BaseException):
    """The process dies here. `image` is what is on disk at that moment."""

    def __init__(self, image: Path) -> None:
        super().__init__()
        self.image = image


@pytest.mark.deep
@pytest.mark.parametrize("few_rows", [20_000, 0], ids=["on the driver", "in tasks"])
@pytest.mark.parametrize("seed", range(4))
def test_an_app_that_dies_at_random_loses_and_doubles_nothing(seed: int, few_rows: int, tmp_path: Path, images: Any):
    """Each death leaves the disk as it is. The next process goes on there, and may die too."""
    chance = random.Random(seed)
    kills: list[str] = []
    image = tmp_path / "0"
    while True:
        app = OperatorApp(image, made_steps(EPOCHS), few_rows=few_rows)
        left = chance.randrange(1, 60)  # steps until it dies

        def reach(step: str, app: OperatorApp = app) -> None:
            nonlocal left
            left -= 1
            if left == 0 and len(kills) < 25:
                kills.append(step)
                raise Killed(copy_of(app.directory, tmp_path / str(len(kills))))

        try:
            with pytest.MonkeyPatch.context() as patch:
                OperatorPoints(patch, app, reach)
                app.run()
            break
        except Killed as killed:
            app.close()
            image = killed.image
    assert len(kills) > 5, kills
    compare(app.checked(), images[1])


def test_a_task_that_fails_half_way_through_its_file_and_is_retried_changes_nothing(tmp_path: Path, images: Any):
    app = OperatorApp(tmp_path, made_steps(EPOCHS), few_rows=0)
    failed: list[Any] = []

    def retried(job: Any, rows: Any) -> list[Any]:
        if not isinstance(job, OperatorJob):
            return list(job(rows))
        with pytest.MonkeyPatch.context() as patch:
            OperatorPoints(patch, app, failing({f"{app.phase}: half of a file is written": 1}))
            try:
                return list(job(rows))
            except Fault:
                failed.append(job)
        return list(job(rows))

    app.tasks.run = retried
    app.run()
    assert len(failed) > EPOCHS
    compare(app.checked(), images[1])


# operators that come when there is history


@cache
def _steps() -> list[Any]:
    return made_steps(EPOCHS, ticks=False)


@pytest.fixture(scope="module")
def from_the_start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What an app comes to that had its operators from the start."""
    app = OperatorApp(tmp_path_factory.mktemp("start"), _steps(), BY_EVENTS)
    app.run()
    return app.checked(panes=False)


def without_operators(directory: Path, epochs: int) -> None:
    app = OperatorApp(directory, _steps()[:epochs], ())
    app.run()
    app.close()


def test_new_operators_begin_with_the_history(tmp_path: Path, from_the_start: dict[str, list[Any]]):
    without_operators(tmp_path, EPOCHS)
    app = OperatorApp(tmp_path, _steps(), BY_EVENTS)
    app.run()
    compare(app.checked(panes=False), from_the_start)


@pytest.mark.parametrize("passes", [1, 2, 3, 4, 7, 9] if DEEP else [2, 4])
@pytest.mark.parametrize("step", REPLAY)
def test_an_interrupted_replay_goes_on_where_it_was(
    step: str, passes: int, tmp_path: Path, from_the_start: dict[str, list[Any]]
):
    without_operators(tmp_path, EPOCHS)
    left = {step: passes}
    with pytest.MonkeyPatch.context() as patch:
        app = OperatorApp(tmp_path, _steps(), BY_EVENTS)
        OperatorPoints(patch, app, failing(left))
        app.run(Fault, app.restart)
    assert not left, "the replay has failed"
    compare(app.checked(panes=False), from_the_start)


def test_a_new_operator_after_a_new_one_begins_with_the_history(tmp_path: Path):
    chain = ("joined", "sums")
    first = OperatorApp(tmp_path / "start", _steps(), chain)
    first.run()
    without_operators(tmp_path / "later", EPOCHS)
    app = OperatorApp(tmp_path / "later", _steps(), chain)
    app.run()
    compare(app.checked(panes=False), first.checked(panes=False))


def over_changes(directory: Path, operators: Sequence[str]) -> OperatorApp:
    """The app with a view of the events, and a processor over its changes if `operators` has it."""
    app = OperatorApp(directory, _steps(), [name for name in operators if name != "changed"])
    view = app.streams["events"].group_by("k").agg(v=ps.max("v"), at=ps.max("at")).retracting()
    changed = processor_stream("changed", view.changes("newest").select("k", "v", "at"), Counts, by="k")
    app.close()
    app.streams |= {"changed": changed.stream} if "changed" in operators else {}
    app.operators = operators
    app.views["newest"] = view
    app.open()
    return app


class Counts(ps.Processor):
    """The newest value of each key."""

    output = "k string, v bigint"
    v = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.v += event.v * event.change
        yield {"k": key, "v": self.v}


def test_an_operator_over_a_view_begins_with_its_rows_though_another_replays_before_it(tmp_path: Path):
    app = over_changes(tmp_path, ())
    app.steps = _steps()[:EPOCHS]
    app.run()
    app.close()
    app = over_changes(tmp_path, ("totals", "changed"))
    app.run()
    values = {row["k"]: row["v"] for row in app.store.state("newest").table().to_dicts()}
    given = app.history.past(app.streams["changed"]).read().sort("__offset")
    assert {row["k"]: row["v"] for row in given.to_dicts()} == values
    app.checked()
