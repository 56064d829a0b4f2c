"""A processor is exactly once: killed around the commits of the epochs that it runs in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.history.events.event_history import EventHistory
from penstock.store import Reader
from penstock.testing import process
from tests.faults.process_app import STEPS, define
from tests.faults.processes import scenario_of

#: At which epoch the process is killed.
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


@pytest.mark.deep
def test_killed_around_the_commits_of_an_epoch_a_processor_does_what_the_reference_does(tmp_path: Path):
    with scenario_of("process_app.py", tmp_path, len(KILLS), files=6) as scenario:
        for step, passes in KILLS:
            scenario.killed_at(step, passes)
        scenario.finish()
    _, events, runs = define(tmp_path)
    reference = process(runs, scenario.script(events))
    want = Counter(tuple(row.values()) for row in reference.rows)
    dead, late = len(reference.dead), len(reference.late)
    reader = Reader(tmp_path / "state")
    kept = EventHistory(reader).past(runs.stream).read()
    names = ("k", "what", "n", "s", "at")
    assert Counter(kept.select(names).iter_rows()) == want
    assert sum(want.values()) > scenario.written / 2
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
