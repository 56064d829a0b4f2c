"""Topologies hold what they promise when the driver or a worker is killed in the middle of an epoch."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.store import Reader
from penstock.testing import run_topology
from tests.faults.processes import Scenario, scenario_of
from tests.faults.topology_app import STEPS, WORKER, define

KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


@pytest.mark.deep
def test_killed_in_the_middle_of_epochs_each_guarantee_holds(tmp_path: Path):
    with scenario_of("topology_app.py", tmp_path, len(KILLS), files=6) as scenario:
        for step, passes in KILLS:
            if step == WORKER:
                _kill_a_worker(scenario)
            else:
                scenario.killed_at(step, passes)
        scenario.go_on()
        total = len({row["id"] for row in scenario.seen})
        scenario.end(until=lambda: _settled(tmp_path) == total)
    _compare(scenario)


def _kill_a_worker(scenario: Scenario) -> None:
    """A worker dies, and the driver goes on; then it dies too."""
    scenario.write(3)
    process = scenario.process()
    process.go(f"{WORKER}:1")
    _until(lambda: not (scenario.root / "KILL").exists())
    before = scenario.commits()
    _until(lambda: scenario.commits() > before)
    process.kill()


def _until(done, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def _settled(root: Path) -> int:
    """How many messages are complete or given up where each comes at least once."""
    reader = Reader(root / "state")
    counters = reader.counters()
    reader.close()
    return counters.get("least.completed", 0) + counters.get("least.given_up", 0)


def _compare(scenario: Scenario) -> None:
    _, events, made = define(scenario.root)
    reader = Reader(scenario.root / "state")
    counters = reader.counters()
    found = {name: _found(reader, name) for name in made}
    exact = run_topology(made["runs"], scenario.script(events))
    want: dict[str, tuple[int, int]] = {}
    for row in exact.rows["sums"]:
        want[row["k"]] = max(want.get(row["k"], (0, 0)), (row["n"], row["s"]))
    assert found["runs"] == want
    assert counters["runs.dead"] == len(exact.dead) > 0
    truth = Counter({k: n for k, (n, _) in want.items()})
    least = Counter({k: n for k, (n, _) in found["least"].items()})
    assert least >= truth
    left = "SELECT count(*) FROM __memory_least WHERE part IN ('trees', 'again')"
    assert reader.query(left).item() == 0, "every tree is complete"
    all_of = Counter(row["k"] for row in _accepted(scenario.seen))
    assert Counter({k: n for k, (n, _) in found["most"].items()}) <= all_of
    reader.close()


def _accepted(rows: list[dict]) -> list[dict]:
    return list({row["id"]: row for row in reversed(rows)}.values())


def _found(reader: Reader, name: str) -> dict[str, tuple[int, int]]:
    answer = reader.query(f"SELECT k, n, s FROM {name}_by_key")
    return {k: (n, s) for k, n, s in answer.iter_rows()}
