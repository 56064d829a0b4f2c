"""Topologies hold what they promise when the driver or a worker is killed in the middle of an epoch."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store import Reader
from penstock.testing import TestStream, run_topology
from tests.conftest import need_spark
from tests.faults.audit import made_up
from tests.faults.processes import FILE, Process, put_file
from tests.faults.topology_app import STEPS, WORKER, define

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
APP = Path(__file__).parent / "topology_app.py"
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


class OfTopology(Process):
    """One process of the app with the topologies."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dict(os.environ), APP)


@pytest.fixture
def next_process(tmp_path: Path) -> Iterator[list[OfTopology]]:
    need_spark()
    (tmp_path / "in").mkdir()
    made = [OfTopology(tmp_path)]
    yield made
    made[0].kill()


@pytest.mark.skipif(not DEEP, reason="for the deep run")
def test_killed_in_the_middle_of_epochs_each_guarantee_holds(tmp_path: Path, next_process: list[OfTopology]):
    rows, written, begun = made_up(FILE * 3 * (len(KILLS) + 1)), 0, int(time.time())

    def write(files: int) -> int:
        done = written
        for _ in range(files):
            done += put_file(tmp_path, rows, done, begun)
        return done

    for step, passes in KILLS:
        written = write(3)
        current, next_process[0] = next_process[0], OfTopology(tmp_path)
        current.go(f"{step}:{passes}")
        if step == WORKER:  # the driver goes on
            _until(lambda: not (tmp_path / "KILL").exists())
            _until(lambda: _replayed(tmp_path))
            current.kill()
        else:
            assert current.ends() == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    written = write(2)
    next_process[0].go()
    total = len({row["id"] for row in rows[:written]})
    _until(lambda: _settled(tmp_path) == total)
    (tmp_path / "END").touch()
    next_process[0].wait_for("done")
    assert next_process[0].ends() == 0
    _compare(tmp_path, rows[:written])


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


def _commits(root: Path) -> int:
    reader = Reader(root / "state")
    last = reader.last()
    reader.close()
    return 0 if last is None else last.number


def _replayed(root: Path) -> bool:
    """Whether the app has committed something since the worker died."""
    before = _commits(root)
    _until(lambda: _commits(root) > before)
    return True


def _compare(root: Path, rows: list[dict]) -> None:
    _, events, made = define(root)
    script = TestStream(events)
    for first in range(0, len(rows), FILE):
        script = script.add(*rows[first : first + FILE])
    reader = Reader(root / "state")
    counters = reader.counters()
    found = {name: _found(reader, name) for name in made}
    exact = run_topology(made["runs"], script)
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
    all_of = Counter(row["k"] for row in _accepted(rows))
    assert Counter({k: n for k, (n, _) in found["most"].items()}) <= all_of
    reader.close()


def _accepted(rows: list[dict]) -> list[dict]:
    return list({row["id"]: row for row in reversed(rows)}.values())


def _found(reader: Reader, name: str) -> dict[str, tuple[int, int]]:
    answer = reader.query(f"SELECT k, n, s FROM {name}_by_key")
    return {k: (n, s) for k, n, s in answer.iter_rows()}
