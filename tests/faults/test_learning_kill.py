"""A model is exactly once: killed around its epochs and transactions, it is what the recorded epochs make of it."""

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
from penstock.learning.versions import HEAD, KEY
from penstock.store import Reader
from penstock.testing import learn
from tests.conftest import need_spark
from tests.faults.audit import made_up
from tests.faults.learning_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import FILE, Process, put_file

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
APP = Path(__file__).parent / "learning_app.py"
#: At which epoch of the model the process is killed.
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


class OfModel(Process):
    """One process of the app with the model."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, dict(os.environ), APP)


@pytest.fixture
def next_process(tmp_path: Path) -> Iterator[list[OfModel]]:
    need_spark()
    (tmp_path / "in").mkdir()
    made = [OfModel(tmp_path)]
    yield made
    made[0].kill()


@pytest.mark.skipif(not DEEP, reason="for the deep run")
@pytest.mark.parametrize("kills", [KILLS])
def test_killed_around_the_commits_of_an_epoch_a_model_is_what_the_recorded_epochs_make_of_it(
    tmp_path: Path, next_process: list[OfModel], kills: list[tuple[str, int]]
):
    rows, written, begun = made_up(FILE * 3 * (len(kills) + 1)), 0, int(time.time())

    def write(files: int) -> int:
        done = written
        for _ in range(files):
            done += put_file(tmp_path, rows, done, begun)
        return done

    for step, passes in kills:
        written = write(3)
        killed, next_process[0] = next_process[0], OfModel(tmp_path)
        killed.go(f"{step}:{passes}")
        assert killed.ends() == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    written = write(2)
    next_process[0].go()
    (tmp_path / "END").touch()
    next_process[0].wait_for("done")
    assert next_process[0].ends() == 0

    _, _, runs = define(tmp_path)
    want = learn(runs, tmp_path / "state")
    reader = Reader(tmp_path / "state")
    kept = Master(reader).past(runs).read().select(want.frame.columns)
    assert sorted(kept.rows()) == sorted(want.frame.rows())
    counters = reader.counters()
    assert counters["runs.dead"] == len(want.dead) > 0
    refused = sum(counters.get(f"events.{kind}", 0) for kind in ("duplicate", "late", "dead"))
    assert kept.height == counters["events.events"] - refused - len(want.dead), "each event is predicted once"
    assert kept["id"].is_unique().all()
    memory = {(part, key): value for part, key, value in reader.query("SELECT * FROM __memory_runs").iter_rows()}
    kinds = (HEAD, f"{KEY}user", f"{KEY}item")
    assert {at: value for at, value in memory.items() if at[0] in kinds} == {
        at: value for at, value in want.memory.values.items() if at[0] in kinds
    }
    assert want.version > len(kills)
    lines = [json.loads(line) for path in sorted((tmp_path / "rows").glob("*.jsonl")) for line in path.open()]
    assert Counter(line["id"] for line in lines) == Counter(kept["id"].to_list())
    assert reader.query("SELECT sum(rows) FROM error").item() == kept.height
    reader.close()
