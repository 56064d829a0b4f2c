"""A clock that jumps: triggers go on, nothing is idle because of it, time never goes back, and results are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.app import App
from penstock.model.time import instant
from penstock.runtime.queries.clock import Steady
from penstock.runtime.run import Run
from tests.faults.app import on_files
from tests.faults.support import Rig, until
from tests.outbox import panes

pytestmark = pytest.mark.xdist_group("kafka")

DAY = 86_400.0


class Clock:
    """A wall clock that can be set, and a machine's own pace that cannot. Both stand until time passes."""

    def __init__(self) -> None:
        self.wall, self.pace = instant("2024-05-01T13:00:00Z"), 0

    def steady(self) -> Steady:
        return Steady(lambda: self.wall, lambda: self.pace)

    def passes(self, seconds: float) -> None:
        self.wall += int(seconds * 1_000_000)
        self.pace += int(seconds * 1_000_000)

    def jumps(self, seconds: float) -> None:
        self.wall += int(seconds * 1_000_000)


class Timed(Rig):
    """Streams are idle after a minute of silence."""

    def app(self) -> App:
        return on_files(self.root, watermark=ps.bounded("20 seconds", idle="1 minute"))[0]


def beats(run: Run) -> int:
    """How often the view that fires by the clock has fired."""
    found: int = panes(run.store).filter(view="beats").height
    return found


def fires(run: Run, clock: Clock) -> None:
    """Two seconds pass, and the trigger by the clock fires."""
    before = beats(run)
    clock.passes(2.0)
    until(lambda: beats(run) > before, run)


def marks(run: Run) -> dict[str, int]:
    return run.store.view_times()


def story(rig: Timed, clock: Clock, disturb: Callable[[float], None]) -> dict[str, set[int]]:
    """Events and time that passes, with jumps of the clock in between."""
    run = rig.start(clock=clock.steady(), tick=0.02)
    seen = marks(run)
    for jump in (0.0, DAY, -DAY, 2 * DAY):
        rig.write()
        disturb(jump)
        rig.current()
        fires(run, clock)
        now = marks(run)
        assert all(now[view] >= mark for view, mark in seen.items()), "time does not go back"
        seen = now
        if jump == -DAY:  # and goes on from there in the next run
            rig.stop()
            run = rig.start(clock=clock.steady(), tick=0.02)
    commits = run.store.query("SELECT now FROM __commits ORDER BY number")["now"]
    assert commits.is_sorted()
    return rig.audit()


def test_a_clock_that_jumps_changes_no_result(spark, tmp_path, caplog):
    calm, wild = Clock(), Clock()
    with Timed(spark, tmp_path / "calm") as rig:
        expected = story(rig, calm, lambda seconds: None)
    with Timed(spark, tmp_path / "wild") as rig:
        found = story(rig, wild, wild.jumps)
    assert found == expected
    assert any(expected.values())
    assert "the clock has jumped ahead by 86400 s" in caplog.text
    assert "the clock was set back by 86400 s: time passes at half its pace" in caplog.text


def test_a_clock_that_stands_still_holds_up_triggers_by_it_and_nothing_else(spark, tmp_path):
    clock = Clock()
    with Timed(spark, tmp_path) as rig:
        run = rig.start(clock=clock.steady(), tick=0.02)
        for _ in range(3):
            rig.write()
            rig.current()
        assert beats(run) == 0
        clock.passes(1.0)
        until(lambda: beats(run) == 1, run)
        rig.audit()
