"""Loops are exactly once: killed around the commits of their epochs, they show what a new computation gives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.store import Reader
from penstock.testing import iterate
from tests.faults.loop_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import Scenario, scenario_of
from tests.model.test_loops import components

#: Where the process is killed, in which epoch of the loop.
KILLS = [(step, passes) for step in STEPS for passes in (1, 2)]


@pytest.mark.deep
def test_killed_around_the_commits_of_its_epochs_a_loop_does_what_it_does_without_spark(tmp_path: Path):
    with scenario_of("loop_app.py", tmp_path, len(KILLS), files=6) as scenario:
        for step, passes in KILLS:
            scenario.killed_at(step, passes)
        scenario.finish()
    reader = Reader(tmp_path / "state")
    _the_graph_is_what_its_edges_make(reader, scenario.seen)
    _poison_is_refused_once(scenario, reader)
    _rows_came_once(tmp_path, reader)
    _epochs_were_told_once(tmp_path, reader)
    reader.close()


def _the_graph_is_what_its_edges_make(reader: Reader, rows: list[dict]) -> None:
    want = components((row["v"] % 400, row["id"] % 150 + 1000, 0) for row in rows)
    found = reader.query("SELECT vertex, component, n FROM labels WHERE n > 0").rows()
    assert sorted(found) == sorted((vertex, component, 1) for vertex, component in want.items())


def _poison_is_refused_once(scenario: Scenario, reader: Reader) -> None:
    _, events, loops = define(scenario.root)
    want = iterate(loops["sums"], scenario.script(events))
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
    commits = reader.query("SELECT \"commit\" FROM __epochs WHERE stream = 'events' ORDER BY 1").to_series().to_list()
    told = reader.query("SELECT epoch, n FROM epochs ORDER BY epoch").rows()
    assert told == [(commit, 1) for commit in commits]
    called = [int(line) for line in (root / "called").read_text().split()]
    assert sorted(set(called)) == commits  # it may have been called again for the epoch at which it was killed
