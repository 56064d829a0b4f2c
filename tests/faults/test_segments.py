"""State in segments: a process dies at any step, or a step fails, and nothing is lost, doubled or left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.audit import made_up
from tests.faults.segments import SIZE, STEPS, Fault, FaultPoints, SegmentApp, copy_of

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
EPOCHS = 7
#: At which passes of a step a process dies. Later ones meet more state.
PASSES = (1, 2, 3, 5, 8, 13, 21)
#: Steps that come only once or twice.
RARE = {step for step in STEPS if "the move of" in step or "removal" in step or "removed" in step}
MOVES = [step for step in STEPS if "the move of a view" in step and not step.endswith("after its transaction")]
#: Nothing can fail after a transaction, before the memory follows it: only a process can die there.
FAILING = [step for step in STEPS if step not in MOVES and not step.endswith(("its transaction", "the epoch"))]


def events(epochs: int = EPOCHS) -> list[dict[str, Any]]:
    return made_up(EPOCHS * SIZE)[: epochs * SIZE]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """What is on disk at each step."""
    root = tmp_path_factory.mktemp("images")
    passes: dict[str, int] = {}
    copies: dict[str, list[Path]] = {}

    def reach(step: str) -> None:
        passes[step] = passes.get(step, 0) + 1
        chosen = PASSES if DEEP else (1,) if step in RARE else (21,) if step.startswith("an epoch") else (5,)
        if passes[step] in chosen:
            copies.setdefault(step, []).append(copy_of(root / "app", root / f"{step} {passes[step]}"))

    with pytest.MonkeyPatch.context() as patch:
        app = SegmentApp(root / "app", events())
        FaultPoints(patch, app, reach)
        app.run()
    assert "by_id" in app.store.sharded_names(), "a large view has moved"
    assert app.store.known_ids.sharded_streams() == ["events"], "ids have moved"
    late = app.check()
    assert late["sessions"] > late["counts"], "there were late events"
    assert copies.keys() == set(STEPS), "each step came"
    return copies


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_dies_leaves_enough_for_the_next_one(step: str, images: dict[str, list[Path]]):
    for image in images[step]:
        app = SegmentApp(image, [])
        app.rows = events(EPOCHS if DEEP else app.done + 1)
        app.run()
        app.check()


def run_with_faults(directory: Path, failing: dict[str, int], *, restarts: bool = False, epochs: int = EPOCHS) -> None:
    """Each of these steps fails once, at the pass with a number."""
    left = dict(failing)

    def reach(step: str) -> None:
        if step in left:
            left[step] -= 1
            if not left[step]:
                raise Fault(step)

    with pytest.MonkeyPatch.context() as patch:
        app = SegmentApp(directory, events(epochs))
        FaultPoints(patch, app, reach)
        app.run(Fault, app.restart if restarts else lambda: None)
    assert not [step for step, passes in left.items() if passes > 0], "each step has failed"
    app.check()


@pytest.mark.parametrize("restarts", [False, True], ids=["as it is", "after a restart"])
def test_an_app_goes_on_when_each_step_has_failed_once(restarts: bool, tmp_path: Path):
    often = ("a task", "an epoch", "ids", "before the commit", "the commit")
    run_with_faults(tmp_path, {step: 2 if step.startswith(often) else 1 for step in FAILING}, restarts=restarts)


@pytest.mark.parametrize("step", MOVES)
def test_a_view_stays_in_its_tables_when_its_move_fails(step: str, tmp_path: Path):
    run_with_faults(tmp_path, {step: 1}, epochs=3)


@pytest.mark.deep
@pytest.mark.parametrize("passes", [1, 2, 5])
@pytest.mark.parametrize("step", [step for step in FAILING if step not in RARE])
def test_an_app_goes_on_when_a_step_has_failed(step: str, passes: int, tmp_path: Path):
    run_with_faults(tmp_path, {step: passes})
