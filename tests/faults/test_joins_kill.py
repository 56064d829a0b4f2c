"""Joins are exactly once: killed around the commits of an epoch, and while tables change."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from penstock.history.events.event_history import EventHistory
from penstock.model.join_played import JoinRun
from penstock.store import Reader
from penstock.testing import join
from tests.faults.join_app import define
from tests.faults.process_app import STEPS
from tests.faults.processes import Scenario, scenario_of

KILLS = [(step, passes) for step in STEPS for passes in (1, 2, 3)]


def name_keys(root: Path, version: int) -> None:
    """Another version of the table: every key has another name."""
    hidden = root / ".names"
    hidden.write_text("".join(json.dumps({"k": k, "name": f"{k}{version}"}) + "\n" for k in "abcdefghijkl"))
    hidden.rename(root / "names" / "all.json")


@pytest.mark.deep
def test_killed_around_the_commits_of_an_epoch_a_join_does_what_the_reference_does(tmp_path: Path):
    (tmp_path / "names").mkdir()
    name_keys(tmp_path, 1)
    with scenario_of("join_app.py", tmp_path, len(KILLS), files=8) as scenario:
        for number, (step, passes) in enumerate(KILLS):
            scenario.killed_at(step, passes, lambda number=number: name_keys(tmp_path, number + 2))
        scenario.go_on()
        want = _wanted(scenario)
        # All that is joined comes by itself, also what found no partner: no more events are needed.
        scenario.end(until=lambda: _is_complete(tmp_path, want))
    _compare_streams(tmp_path, want)
    _compare_names(tmp_path, scenario.seen)


def _wanted(scenario: Scenario) -> JoinRun:
    _, events, runs = define(scenario.root)
    return join(runs, scenario.script(events))


def _kept(reader: Reader, root: Path) -> pl.DataFrame:
    return EventHistory(reader).past(define(root)[2]).read().select("id", "k", "other")


def _is_complete(root: Path, want: JoinRun) -> bool:
    reader = Reader(root / "state")
    found = Counter(_kept(reader, root).iter_rows())
    reader.close()
    return found == _given(want)


def _given(want: JoinRun) -> Counter:
    return Counter((row[0], row[1], row[3]) for row in want.rows)


def _compare_streams(root: Path, want: JoinRun) -> None:
    reader = Reader(root / "state")
    kept = _kept(reader, root)
    assert None in kept["other"], "some found none"
    assert Counter(kept.iter_rows()) == _given(want)
    late = sum(one.event.stream == "events" for one in want.late)
    assert reader.counters().get("runs.late", 0) == late > 0
    assert reader.query("SELECT sum(rows) FROM by_key").item() == kept.height
    reader.close()


def _compare_names(root: Path, rows: list[dict]) -> None:
    """Each event has the name of the version that its commit says it had."""
    reader = Reader(root / "state")
    kept = EventHistory(reader).past(define(root)[1]).read().select("id", "k", "__commit")
    sql = """SELECT e."commit", (SELECT version FROM __versions v WHERE v.stream = e.stream AND v."table" = 'names'
             AND v."commit" <= e."commit" ORDER BY v."commit" DESC LIMIT 1) FROM __epochs e"""
    versions = dict(reader.query(sql).iter_rows())
    assert kept.height == len({row["id"] for row in rows})
    found: Counter[str] = Counter()
    for name, count in reader.query("SELECT name, rows FROM by_name").iter_rows():
        found[name] += count
    want: Counter[str] = Counter()
    for _, key, commit in kept.iter_rows():
        want[f"{key}{named_in(root, versions[commit])}"] += 1
    assert found == want
    reader.close()


def named_in(root: Path, version: int) -> int:
    """Which names a version of the table has."""
    rows = pl.read_parquet(root / "state" / "tables" / "names" / str(version) / "*.parquet")
    return int(rows["name"][0][1:])
