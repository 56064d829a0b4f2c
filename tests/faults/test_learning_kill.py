"""A model is exactly once: killed around its epochs and transactions, it is what the recorded epochs make of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.history.events.event_history import EventHistory
from penstock.learning.versions import HEAD, KEY
from penstock.store import Reader
from penstock.testing import learn
from tests.faults.learning_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import scenario_of

#: At which epoch of the model the process is killed.
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


@pytest.mark.deep
def test_killed_around_the_commits_of_an_epoch_a_model_is_what_the_recorded_epochs_make_of_it(tmp_path: Path):
    with scenario_of("learning_app.py", tmp_path, len(KILLS), files=6) as scenario:
        for step, passes in KILLS:
            scenario.killed_at(step, passes)
        scenario.finish()

    _, _, runs = define(tmp_path)
    want = learn(runs, tmp_path / "state")
    reader = Reader(tmp_path / "state")
    kept = EventHistory(reader).past(runs).read().select(want.frame.columns)
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
    assert want.version > len(KILLS)
    lines = [json.loads(line) for path in sorted((tmp_path / "rows").glob("*.jsonl")) for line in path.open()]
    assert Counter(line["id"] for line in lines) == Counter(kept["id"].to_list())
    assert reader.query("SELECT sum(rows) FROM error").item() == kept.height
    reader.close()
