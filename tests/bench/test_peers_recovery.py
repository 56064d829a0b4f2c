"""What the comparison measures after a kill, without a broker: when counts are whole again, and which are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers import recovery, results
from bench.peers.contender import CONTENDERS
from bench.peers.recovery import History, Recovery

KILLED = 39.5


def measured() -> Recovery:
    return Recovery("penstock", "Penstock", "2026-11-19", "make peers", {"cores": "2 cores"}, {"penstock": "1"})


def test_a_count_is_right_since_the_first_value_that_stays() -> None:
    assert recovery.right_since([(1.0, 5), (2.0, 7), (3.0, 7)], 7) == 2.0
    assert recovery.right_since([(1.0, 7), (2.0, 3), (3.0, 7)], 7) == 3.0
    assert recovery.right_since([(1.0, 7), (2.0, 8)], 7) is None
    assert recovery.right_since([], 7) is None


def test_the_time_runs_from_the_kill_until_the_windows_before_it_are_whole() -> None:
    right = {("a", 20_000): 4, ("a", 30_000): 7, ("a", 40_000): 5}
    history: History = {
        ("a", 20_000): [(31.0, 4)], ("a", 30_000): [(35.0, 3), (44.0, 7)], ("a", 40_000): [(52.0, 5)],
    }  # fmt: skip
    taken = measured()
    recovery.add(taken, right, history, KILLED)
    assert (taken.seconds, taken.counts, taken.wrong) == ([4.5], 3, 0)


def test_counts_that_are_too_high_or_missing_are_wrong() -> None:
    right = {("a", 20_000): 4, ("a", 30_000): 7}
    taken = measured()
    recovery.add(taken, right, {("a", 20_000): [(31.0, 4), (45.0, 8)]}, KILLED)
    assert taken.wrong == 2
    assert recovery.cells(taken) == ["never", "2", "2"]


def test_the_last_window_is_left_out() -> None:
    assert recovery.closed({("a", 10_000): 1, ("a", 20_000): 2}, 20.0) == {("a", 10_000): 1}


def test_what_was_measured_is_read_again_and_shown_with_ours_first(tmp_path: Path) -> None:
    ours, failed = measured(), measured()
    ours.seconds, ours.counts = [5.0, 7.0], 1800
    failed.contender, failed.title, failed.problem = "bytewax", "Bytewax", "the job ended with 1"
    for one in (failed, ours):
        results.save(one, one.contender, tmp_path)
    known = recovery.read(tmp_path)
    assert known == [failed, ours]
    shown = [line for line in recovery.section(known) if line.startswith("|")]
    assert "6.0 s (5.0–7.0)" in shown[2]
    assert "the job ended with 1" in shown[3]


@pytest.mark.parametrize("name", ["penstock", "flink_sql", "spark"])
def test_a_contender_that_needs_no_store_of_its_own_prepares_nothing(name: str, tmp_path: Path) -> None:
    assert set(CONTENDERS[name].prepare_recovery(tmp_path, tmp_path)) <= {"PEERS_RECOVERS"}
    assert list(tmp_path.iterdir()) == []
