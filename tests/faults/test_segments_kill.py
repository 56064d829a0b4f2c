"""State in segments is exactly once: the driver is killed while tasks write segments, and around compaction."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.state.ids import owner_of
from penstock.store import Reader
from tests.conftest import need_spark
from tests.faults.java import fast_java
from tests.faults.processes import Scenario
from tests.faults.segment_app import REPLACED, STEPS, WRITTEN
from tests.faults.segments import files_of, swept

pytestmark = pytest.mark.xdist_group("kill")
RANDOM = 60


@pytest.fixture
def scenario(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    need_spark()
    made = Scenario(tmp_path, fast_java(), request.param, Path(__file__).parent / "segment_app.py", files=8)
    yield made
    made.next.kill()


def check(scenario: Scenario) -> None:
    """Everything is right, and after a sweep the files are those that are listed."""
    scenario.audit()
    reader = Reader(scenario.root / "state")
    reader.check()
    segments = reader.query("SELECT owner, path FROM __segments")
    reader.close()
    assert set(segments["owner"]) == {"counts", "sessions", owner_of("events")}
    root, listed = scenario.root / "state" / "state", set(segments["path"])
    swept(root, (), listed)
    assert files_of(root) == listed


@pytest.mark.parametrize("scenario", [2], indirect=True)
def test_killed_between_files_and_commit_and_after_compaction_nothing_is_lost(scenario: Scenario):
    scenario.killed_at(WRITTEN, 5)
    scenario.killed_at(REPLACED, 1)
    scenario.finish()
    check(scenario)


@pytest.mark.deep
@pytest.mark.parametrize("scenario", [3 * len(STEPS)], indirect=True)
def test_killed_at_each_step_nothing_is_lost(scenario: Scenario):
    for step in STEPS:
        for passes in (1, 2, 5):
            scenario.killed_at(step, passes, lambda: scenario.write(4))
    scenario.finish()
    check(scenario)


@pytest.mark.deep
@pytest.mark.parametrize("scenario", [RANDOM], indirect=True)
def test_killed_at_random_moments_nothing_is_lost(scenario: Scenario):
    chance = random.Random(7)
    for _ in range(RANDOM):
        scenario.write(chance.randrange(2, 6))
        process = scenario.process()
        process.go()
        process.wait_for("ready")
        goal = scenario.commits() + chance.randrange(4)
        while process.runs and scenario.commits() < goal and chance.random() > 0.005:
            process.ends_within(chance.random() * 0.05)
        process.ends_within(chance.random())  # anywhere in what comes after the commit
        process.kill()
    scenario.finish()
    check(scenario)
