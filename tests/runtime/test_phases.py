"""The parts of a start: what lasts, what is over, and what is kept of them."""

from __future__ import annotations

import itertools
from pathlib import Path

from penstock.runtime.phases import COMPUTING, FILE, PLANNING, Phases, Span, last_start


def counting() -> Phases:
    """Phases whose clock goes on by a second each time it is read."""
    seconds = itertools.count(1)
    return Phases(lambda: float(next(seconds)))


def test_what_was_begun_last_is_what_the_app_waits_for():
    phases = counting()
    phases.begin("loading the app", 0.0)
    with phases.span("starting Spark"):
        assert phases.current == "starting Spark"
        phases.end("loading the app")
    assert phases.current is None
    assert phases.spans == [Span("loading the app", 0.0, 2.0), Span("starting Spark", 1.0, 3.0)]


def test_the_first_commit_ends_the_start_and_its_parts_are_kept(tmp_path: Path):
    phases = counting()
    phases.queries_started(tmp_path)
    assert phases.current == PLANNING
    phases.epoch_began()
    assert phases.current == COMPUTING
    assert not (tmp_path / FILE).exists()
    phases.committed()
    assert phases.is_over
    assert phases.current is None
    assert last_start(tmp_path) == [Span(PLANNING, 1.0, 2.0), Span(COMPUTING, 3.0, 4.0)]


def test_later_epochs_are_no_part_of_the_start(tmp_path: Path):
    phases = counting()
    phases.queries_started(tmp_path)
    phases.committed()
    phases.epoch_began()
    phases.begin("something else")
    phases.committed()
    assert [span.name for span in phases.spans] == [PLANNING]


def test_an_app_that_has_never_started_has_no_parts(tmp_path: Path):
    assert last_start(tmp_path) == []
    (tmp_path / FILE).write_text('[{"name": 1, "unknown": 2}]')
    assert last_start(tmp_path) == []
