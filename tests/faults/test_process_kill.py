"""A processor is exactly once: killed between Spark's commit of its state and the store's commit, and the other way."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.lake.master import Master
from penstock.store import Reader
from penstock.testing import TestStream, process
from tests.conftest import need_spark
from tests.faults.audit import made_up
from tests.faults.process_app import STEPS, define
from tests.faults.processes import FILE, Process, put_file

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
APP = Path(__file__).parent / "process_app.py"
#: At which epoch of the processor the process is killed.
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


class OfProcessor(Process):
    """One process of the app with the processor."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dict(os.environ), APP)


@pytest.fixture
def next_process(tmp_path: Path) -> Iterator[list[OfProcessor]]:
    need_spark()
    (tmp_path / "in").mkdir()
    made = [OfProcessor(tmp_path)]
    yield made
    made[0].kill()


def expected(root: Path, rows: list[dict]) -> tuple[Counter, int, int]:
    """What the reference gives out for these events, a file an epoch; how many it refuses."""
    _, events, runs = define(root)
    script = TestStream(events)
    for first in range(0, len(rows), FILE):
        script = script.add(*rows[first : first + FILE])
    found = process(runs, script)
    return Counter(tuple(row.values()) for row in found.rows), len(found.dead), len(found.late)


@pytest.mark.skipif(not DEEP, reason="for the deep run")
@pytest.mark.parametrize("kills", [KILLS])
def test_killed_around_the_commits_of_an_epoch_a_processor_does_what_the_reference_does(
    tmp_path: Path, next_process: list[OfProcessor], kills: list[tuple[str, int]]
):
    rows, written, begun = made_up(FILE * 3 * (len(kills) + 1)), 0, int(time.time())

    def write(files: int) -> int:
        done = written
        for _ in range(files):
            done += put_file(tmp_path, rows, done, begun)
        return done

    for step, passes in kills:
        written = write(3)
        killed, next_process[0] = next_process[0], OfProcessor(tmp_path)
        killed.go(f"{step}:{passes}")
        assert killed.ends() == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    written = write(2)
    next_process[0].go()
    (tmp_path / "END").touch()
    next_process[0].wait_for("done")
    assert next_process[0].ends() == 0

    want, dead, late = expected(tmp_path, rows[:written])
    reader = Reader(tmp_path / "state")
    kept = Master(reader).past(define(tmp_path)[2].stream).read()
    names = ("k", "what", "n", "s", "at")
    assert Counter(kept.select(names).iter_rows()) == want
    assert sum(want.values()) > written / 2
    counters = reader.counters()
    assert (counters["runs.dead"], counters.get("runs.late", 0)) == (dead, late)
    assert dead > 0
    assert late > 0, "there were late events"
    lines = [json.loads(line) for path in sorted((tmp_path / "rows").glob("*.jsonl")) for line in path.open()]
    assert Counter(tuple(line[name] for name in names[:4]) for line in lines) == Counter(
        key[:4] for key in want.elements()
    )
    by_kind = reader.query("SELECT sum(rows) FROM by_kind").item()
    assert by_kind == sum(want.values())
    reader.close()
