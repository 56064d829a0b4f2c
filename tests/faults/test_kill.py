"""Exactly once: the process is killed at random moments and at each step of the commit protocol, and nothing is lost.

After the last restart the audit compares everything. Starting costs most: the next process gets ready while one is
being killed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.app import ADD, ADDED, SAVEPOINT, STEPS
from tests.faults.java import fast_java
from tests.faults.processes import Scenario

pytestmark = pytest.mark.xdist_group("kill")  # groups come first, and these take longest
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
KILLS = 200 if DEEP else 20
#: At which pass of a fault point the process is killed: in the deep run at the first three of each.
POSITIONS = [
    (step, passes)
    for number, step in enumerate(STEPS)
    for passes in ((1,) if step in (SAVEPOINT, ADDED) else (1, 2, 3) if DEEP else (1 + number % 2,))
]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    def train(environment: dict[str, str]) -> None:
        Scenario(tmp_path_factory.mktemp("train"), environment, kills=3).finish(ADD)

    return fast_java(train)


@pytest.fixture
def scenario(tmp_path: Path, java: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Scenario]:
    made = Scenario(tmp_path, java, request.param)
    yield made
    made.next.kill()


@pytest.mark.parametrize("scenario", [KILLS], indirect=True)
def test_killed_at_random_moments_nothing_is_lost_and_nothing_counts_twice(scenario: Scenario):
    chance = random.Random(11)
    for _ in range(KILLS):
        scenario.write(chance.randrange(2, 4))
        process = scenario.process()
        process.go()
        process.wait_for("ready")
        goal = scenario.commits() + chance.randrange(3)
        moment = time.monotonic() + chance.random()  # where no commit is waited for, and after the last one
        while process.runs and (scenario.commits() < goal or time.monotonic() < moment):
            if chance.random() < 0.02:
                break
            time.sleep(0.005)
        process.kill()
    scenario.finish(ADD)
    late = scenario.audit()
    assert late["sessions"] > late["counts"], "there were late events"


@pytest.mark.parametrize("scenario", [len(POSITIONS)], indirect=True)
def test_killed_at_each_step_of_the_commit_protocol(scenario: Scenario):
    for step, passes in POSITIONS:
        scenario.killed_at(step, passes)
    scenario.finish(ADD)
    late = scenario.audit()
    assert late["sessions"] > late["counts"], "there were late events"
