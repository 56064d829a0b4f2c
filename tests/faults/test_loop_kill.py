"""Loops are exactly once: killed around the commits of their epochs, they show what a new computation gives."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store import Reader
from penstock.testing import TestStream, iterate
from tests.conftest import need_spark
from tests.faults.audit import made_up
from tests.faults.loop_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import FILE, Process, put_file
from tests.model.test_loops import components

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
APP = Path(__file__).parent / "loop_app.py"
#: Where the process is killed, in the first epoch of the loop: it may have read all that there is in that one.
KILLS = [(step, 1) for step in STEPS]


class OfLoop(Process):
    """One process of the app with loops."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dict(os.environ), APP)


@pytest.fixture
def next_process(tmp_path: Path) -> Iterator[list[OfLoop]]:
    need_spark()
    (tmp_path / "in").mkdir()
    made = [OfLoop(tmp_path)]
    yield made
    made[0].kill()


@pytest.mark.skipif(not DEEP, reason="for the deep run")
def test_killed_around_the_commits_of_its_epochs_a_loop_does_what_it_does_without_spark(
    tmp_path: Path, next_process: list[OfLoop]
):
    rows, written, begun = made_up(FILE * 3 * (len(KILLS) + 1)), 0, int(time.time())

    def write(files: int) -> int:
        done = written
        for _ in range(files):
            done += put_file(tmp_path, rows, done, begun)
        return done

    for step, passes in KILLS:
        written = write(3)
        killed, next_process[0] = next_process[0], OfLoop(tmp_path)
        killed.go(f"{step}:{passes}")
        assert killed.ends() == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    written = write(2)
    next_process[0].go()
    (tmp_path / "END").touch()
    next_process[0].wait_for("done")
    assert next_process[0].ends() == 0

    reader = Reader(tmp_path / "state")
    _the_graph_is_what_its_edges_make(reader, rows[:written])
    _poison_is_refused_once(tmp_path, reader, rows[:written])
    _rows_came_once(tmp_path, reader)
    _epochs_were_told_once(tmp_path, reader)
    reader.close()


def _the_graph_is_what_its_edges_make(reader: Reader, rows: list[dict]) -> None:
    want = components((row["v"] % 400, row["id"] % 150 + 1000, 0) for row in rows)
    found = reader.query("SELECT vertex, component, n FROM labels WHERE n > 0").rows()
    assert sorted(found) == sorted((vertex, component, 1) for vertex, component in want.items())


def _poison_is_refused_once(root: Path, reader: Reader, rows: list[dict]) -> None:
    _, events, loops = define(root)
    script = TestStream(events)
    for first in range(0, len(rows), FILE):
        script = script.add(*rows[first : first + FILE])
    want = iterate(loops["sums"], script)
    assert sorted(reader.query("SELECT key, got FROM got WHERE n > 0").rows()) == [
        tuple(row.values()) for row in want.shown
    ]
    assert reader.counters().get("sums.dead", 0) == len(want.dead) > 0


def _rows_came_once(root: Path, reader: Reader) -> None:
    lines = [json.loads(line) for path in sorted((root / "rows").glob("*.jsonl")) for line in path.open()]
    standing: Counter = Counter()
    for line in lines:
        standing[line["vertex"], line["component"]] += line["sign"]
    shown = reader.query("SELECT vertex, component FROM labels WHERE n > 0").rows()
    assert +standing == Counter(shown)
    assert not -standing


def _epochs_were_told_once(root: Path, reader: Reader) -> None:
    commits = reader.query("SELECT \"commit\" FROM __marks WHERE stream = 'events' ORDER BY 1").to_series().to_list()
    told = reader.query("SELECT epoch, n FROM epochs ORDER BY epoch").rows()
    assert told == [(commit, 1) for commit in commits]
    called = [int(line) for line in (root / "called").read_text().split()]
    assert sorted(set(called)) == commits  # it may have been called again for the epoch at which it was killed
