"""Epochs take what they can finish in time: the rule alone, and on Spark, with slow views and logs that surge."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import penstock as ps
from penstock.learning import Rates
from penstock.runtime.queries.admission import BYTES, EVENTS, Admission
from penstock.runtime.queries.pace import Pace, last_limits
from penstock.runtime.run import Run
from penstock.store.figures import Intake


class Simulated:
    """Epochs that cost `fixed` + `each` · events, in a machine with noise and pauses, on a log that fills at a rate."""

    def __init__(self, fixed: float, each: float, rate: Callable[[float], float], seed: int = 0) -> None:
        self.fixed, self.each, self.rate = fixed, each, rate
        self.admission = Admission(EVENTS, target=2.0)
        self.behind, self.now = 0.0, 0.0
        self.epochs: list[tuple[int, float]] = []
        self.limits: list[int] = []
        self._chance = random.Random(seed)

    def run(self, epochs: int) -> Simulated:
        for _ in range(epochs):
            amount = int(min(self.admission.limit, self.behind))
            seconds = (self.fixed + self.each * amount) * self._chance.uniform(0.8, 1.2)
            seconds *= 8 if self._chance.random() < 0.02 else 1
            self.behind += self.rate(self.now) * seconds - amount
            self.now += seconds
            self.epochs.append((amount, seconds))
            self.limits.append(self.admission.took(amount, seconds))
            assert EVENTS.floor <= self.admission.limit <= EVENTS.ceiling
        return self


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("bounds", "size"), [(EVENTS, 1), (BYTES, 40), (BYTES, 400)], ids=["events", "short", "long"])
@pytest.mark.parametrize("each", [0.004, 0.0004, 0.00001], ids=["4 ms", "0.4 ms", "10 µs"])
def test_epochs_of_a_slow_function_stay_within_twice_their_target(each, bounds, size, seed):
    """A function of so many seconds a row on two cores, more events than it can take, and rows of some size."""
    chance = random.Random(seed)
    admission = Admission(bounds, target=2.0, limit=bounds.careful)
    taken: list[float] = []
    for number in range(60):
        amount = admission.limit
        seconds = (0.4 + each / 2 * amount / size) * chance.uniform(0.85, 1.15)
        taken.append(seconds)
        if number:  # the first epoch of a run tells nothing
            admission.took(amount, seconds)
    assert max(taken) <= 2 * admission.target
    assert sorted(taken[10:])[len(taken[10:]) // 2] > 0.7 * admission.target, "it has grown to what fits"
    assert taken[0] < admission.target, "the first epoch takes few rows"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("fixed", "each"),
    [(0.25, 1.5e-6), (0.25, 1e-5), (0.3, 1e-4), (0.5, 1e-3)],
    ids=["1.5 µs", "10 µs", "0.1 ms", "1 ms"],
)
def test_the_limit_finds_what_fits_and_stays_there(fixed, each, seed):
    ran = Simulated(fixed, each, lambda _: 10 / each, seed).run(300)
    fits = (2.0 - fixed) / each
    within = [fits / 2.2 < limit < fits * 2.2 for limit in ran.limits]
    assert all(within[3:8]), "four epochs are enough to find it"
    assert sum(within[8:]) > 0.97 * len(within[8:])


def test_a_few_events_change_nothing():
    ran = Simulated(0.3, 1e-6, lambda _: 100).run(300)
    assert set(ran.limits) == {EVENTS.start}


def test_a_surge_fills_epochs_and_the_limit_stays_about_the_same():
    ran = Simulated(0.25, 2e-6, lambda now: 400_000 if 60 < now < 120 else 40_000)
    ran.behind = 2_000_000  # it begins with what has piled up
    while ran.now < 60:
        ran.run(1)
    known, first = ran.admission.limit, len(ran.epochs)
    while ran.now < 200:
        ran.run(1)
    surging = ran.epochs[first:]
    assert known / 2 < min(ran.limits[first:]) <= max(ran.limits[first:]) < known * 2
    assert max(amount for amount, _ in surging) > 5 * min(amount for amount, _ in surging)
    assert sorted(seconds for _, seconds in surging)[int(len(surging) * 0.9)] < 2 * 2.0
    assert ran.behind < 40_000 * 5


@pytest.mark.parametrize("seed", range(8))
def test_a_fixed_part_longer_than_the_target_does_not_shrink_epochs_to_nothing(seed):
    ran = Simulated(6.0, 1e-5, lambda _: 30_000, seed).run(150)
    taken = sum(amount for amount, _ in ran.epochs[50:])
    assert taken > 0.5 * 30_000 * sum(seconds for _, seconds in ran.epochs[50:])


def test_floor_and_ceiling_hold():
    fast, slow = Simulated(0.01, 1e-9, lambda _: 1e9).run(50), Simulated(0.1, 5.0, lambda _: 1000).run(50)
    assert fast.admission.limit == EVENTS.ceiling
    assert slow.admission.limit == EVENTS.floor
    assert set(fast.limits[5:]) == {EVENTS.ceiling}
    assert set(slow.limits[5:]) == {EVENTS.floor}
    assert Admission(BYTES, target=1.0, limit=1).limit == BYTES.floor


def test_the_first_epoch_of_a_run_lets_the_limit_grow_and_never_shrink():
    for seconds, grows in ((0.5, True), (1.5, True), (2.0, False), (9.0, False)):
        admission = Admission(BYTES, target=2.0)
        assert (admission.took_first(BYTES.start, seconds) > BYTES.start) == grows
        assert admission.limit <= 8 * BYTES.start
        assert admission.took(admission.limit, 0.4) >= admission.limit / 2, "what it took is not remembered"
    assert Admission(BYTES, target=2.0).took_first(BYTES.start // 3, 0.1) == BYTES.start, "it was not full"


# on Spark


def write(folder: Path, number: int, events: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = "\n".join(json.dumps({"k": f"k{n % 7}", "n": number * 1000 + n, "pad": "x" * 60}) for n in range(events))
    (folder / f".{number:03}").write_text(rows + "\n")
    (folder / f".{number:03}").rename(folder / f"{number:03}.json")
    os.utime(folder / f"{number:03}.json", (1e9 + number, 1e9 + number))


def begin(app: ps.App, directory: Path, spark, **options) -> Run:
    return app.start(directory, spark=spark, tick=3600.0, **options)


def notes(run: Run) -> list[dict[str, Any]]:
    sql = "SELECT stream, rows, unit, \"limit\", taken, behind FROM __commits WHERE kind = 'epoch' ORDER BY number"
    return run.store.query(sql).to_dicts()


def taken(run: Run) -> list[int]:
    return [note["rows"] for note in notes(run)]


@pytest.mark.deep
def test_a_slow_view_gets_smaller_epochs_and_loses_nothing(spark, tmp_path):
    options = {"target": "0.2 seconds", "bounds": [replace(BYTES, floor=1000)]}
    app = ps.App("slow")
    events = app.stream("events", ps.files(tmp_path / "in"), schema="k string, n bigint, pad string")

    def slowly(frames):
        import time

        for frame in frames:
            time.sleep(0.003 * len(frame))
            yield frame

    slowed = events.transform(lambda df: df.mapInPandas(slowly, df.schema), schema="k string, n bigint, pad string")
    app.view("counts", slowed.group_by("k").agg(n=ps.count(), s=ps.sum("n")))
    write(tmp_path / "in", 0, 50)
    run = begin(app, tmp_path / "state", spark, **options)
    try:
        for more in (range(1, 2), range(2, 50), range(50, 80)):
            run.catch_up()
            for number in more:
                write(tmp_path / "in", number, 50)
        run.catch_up()
        n, s = run.store.query("SELECT sum(n), sum(s) FROM counts").row(0)
        limit, noted = last_limits(run.store)["events"].limit, notes(run)
    finally:
        run.stop()
    assert (n, s) == (80 * 50, sum(number * 1000 + k for number in range(80) for k in range(50)))
    assert limit < BYTES.start / 4
    assert all(note["taken"] <= note["limit"] for note in noted if note["taken"] is not None)
    run = begin(app, tmp_path / "state", spark, **options)
    try:
        assert run.queries["events"].pace._admission.limit == limit, "it begins where it was"
    finally:
        run.stop()


def test_small_logs_are_read_whole_and_a_number_that_is_said_stands(spark, tmp_path):
    for number in range(6):
        write(tmp_path / "in", number, 5)
    for options, expected in (({}, [30]), ({"files_per_epoch": 2}, [10, 10, 10])):
        app = ps.App("small")
        events = app.stream("events", ps.files(tmp_path / "in", **options), schema="k string, n bigint")
        app.view("counts", events.group_by("k").agg(n=ps.count()))
        run = begin(app, tmp_path / f"state-{len(expected)}", spark)
        try:
            run.catch_up()
            assert taken(run) == expected
            limits = [intake.limit for intake in last_limits(run.store).values()]
            assert limits == ([] if options else [BYTES.start])
        finally:
            run.stop()


def test_a_running_query_takes_another_limit_from_its_next_epoch_on(spark, tmp_path, monkeypatch):
    """Fails if Spark keeps the limits of a running query elsewhere: see `spark/internals.py`."""
    for number in range(12):
        write(tmp_path / "in", number, 5)
    size = (tmp_path / "in" / "011.json").stat().st_size
    limits = [2 * size + 50, 5 * size + 50]
    monkeypatch.setattr(Admission, "took", lambda self, amount, seconds: limits.pop() if len(limits) > 1 else limits[0])
    monkeypatch.setattr(Admission, "took_first", lambda self, amount, seconds: self.limit)
    app = ps.App("adjusted")
    events = app.stream("events", ps.files(tmp_path / "in"), schema="k string, n bigint")
    app.view("counts", events.group_by("k").agg(n=ps.count()))
    run = begin(app, tmp_path / "state", spark, bounds=[replace(BYTES, start=size, floor=1)])
    try:
        query = run.queries["events"].query.runId
        run.catch_up()
        # Two of one file, then five, and two.
        assert taken(run) == [5, 5, 25, 10, 10, 5]
        assert run.queries["events"].query.runId == query, "no restart"
    finally:
        run.stop()


def test_a_spark_that_fixes_limits_at_the_start_is_told_once_and_they_stay(monkeypatch, caplog):
    monkeypatch.setattr("penstock.runtime.queries.pace.takes_limits", lambda query: False)
    pace, query = Pace(ps.kafka("t", servers="here:1"), 2.0), cast(Any, None)
    pace.begin()
    pace.began("events", query)
    for _ in range(3):
        pace.ended(query, EVENTS.start, 0.5)
    assert pace.intake(7) == Intake("events", EVENTS.start, 7)
    (said,) = caplog.messages
    assert "the stream 'events' takes at most 50000 events in each epoch" in said


def test_the_rows_of_a_first_epoch_count_where_its_size_is_not_known(monkeypatch):
    limits: list[int] = []
    monkeypatch.setattr("penstock.runtime.queries.pace.set_limit", lambda query, unit, limit: limits.append(limit))
    pace, query = Pace(ps.kafka("t", servers="here:1"), 2.0), cast(Any, "a query")
    pace.begin()
    pace.ended(query, None, 0.5)
    assert limits == [], "neither its size nor its rows are known"
    pace = Pace(ps.kafka("t", servers="here:1"), 2.0)
    pace.begin()
    pace.ended(query, None, 0.5, EVENTS.start)
    assert limits[0] > EVENTS.start, "a full epoch that is far from its target lets the limit grow"
    files = Pace(ps.files("/in"), 2.0)
    files.begin()
    files.ended(query, None, 0.5, EVENTS.start)
    assert len(limits) == 1, "the limit of files is in bytes"


def test_a_stream_made_from_others_takes_another_limit_without_a_restart(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(Admission, "took", lambda self, amount, seconds: 777)
    app = ps.App("stated")
    events = app.stream("events", ps.files(tmp_path / "in", files_per_epoch=1), schema="k string, n bigint")
    app.learn("counted", events.select("k", "n > 1 AS yes"), Rates("k", "yes"))
    write(tmp_path / "in", 0, 5)
    run = begin(app, tmp_path / "state", spark)
    try:
        run.catch_up()
        query, limits = run.queries["counted"].query.runId, []
        for number in range(1, 4):
            write(tmp_path / "in", number, 5)
            run.catch_up()
            limits.append(last_limits(run.store)["counted"].limit)
        assert limits == [EVENTS.start, 777, 777]  # the first epoch of all took too little to tell
        assert run.queries["counted"].query.runId == query, "all of its state was loaded again"
    finally:
        run.stop()


def test_epochs_with_code_of_users_begin_small():
    log = ps.files("in")
    first = [Pace(log, 2.0, runs_code=code).begin() for code in (False, True)]
    assert first == [log.limited(BYTES.start), log.limited(BYTES.careful)]
    known = Intake("bytes", 1 << 20)
    assert Pace(log, 2.0, known, runs_code=True).begin() == log.limited(1 << 20), "it is known what they take"
