"""Operators in the epochs of their input: the driver is killed around the commit, and nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.history.events.event_history import EventHistory
from penstock.store import Reader
from penstock.testing import join, process
from tests.faults.operator_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import Scenario, scenario_of
from tests.faults.segments import files_of, swept

pytestmark = pytest.mark.xdist_group("kill")


def check(scenario: Scenario) -> None:
    """The rows of both operators are those of the reference, views have them once, and files are listed."""
    _, events, (joined, runs) = define(scenario.root)
    script = scenario.script(events)
    pairs, sums = join(joined, script), process(runs, script)
    reader = Reader(scenario.root / "state")
    history = EventHistory(reader)
    kept = history.past(joined).read().select("id", "k", "other")
    assert Counter(kept.iter_rows()) == Counter((row[0], row[1], row[3]) for row in pairs.rows)
    names = ("k", "what", "n", "s", "at")
    given = Counter(history.past(runs.stream).read().select(names).iter_rows())
    assert given == Counter(tuple(row.values()) for row in sums.rows)
    assert {what for _, what, *_ in given} == {"event", "quiet"}, "timers have fired"
    counters = reader.counters()
    late = sum(one.event.stream == "events" for one in pairs.late)
    assert counters["joined.late"] == late > 0
    assert (counters["runs.dead"], counters["runs.late"]) == (len(sums.dead), len(sums.late))
    assert reader.query("SELECT sum(rows) FROM by_kind").item() == given.total()
    listed = set(reader.query("SELECT DISTINCT path FROM __segments")["path"])
    reader.close()
    root = scenario.root / "state" / "state"
    swept(root, (), listed)
    assert files_of(root) == listed


def test_killed_before_and_after_the_transaction_operators_do_what_the_reference_does(tmp_path: Path):
    with scenario_of("operator_app.py", tmp_path, 2, files=4) as scenario:
        scenario.killed_at("before the transaction", 3)
        scenario.killed_at("after the transaction", 2)
        scenario.finish()
    check(scenario)


@pytest.mark.deep
def test_killed_at_each_step_operators_do_what_the_reference_does(tmp_path: Path):
    kills = [(step, passes) for step in STEPS for passes in (1, 2, 3)]
    with scenario_of("operator_app.py", tmp_path, len(kills), files=4) as scenario:
        for step, passes in kills:
            scenario.killed_at(step, passes)
        scenario.finish()
    check(scenario)
