"""Epochs take what they can finish in time: the rule alone, and on Spark, with slow views and logs that surge."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.runtime.queries.admission import BYTES, EVENTS, Admission
from penstock.runtime.queries.pace import last_limits
from penstock.runtime.run import Run


class Simulated:
    """Epochs that cost `fixed` + `each` · events, in a machine with noise and pauses, on a log that fills at a rate."""

    def __init__(self, fixed: float, each: float, rate: Callable[[float], float], seed: int = 0) -> None:
        self.fixed, self.each, self.rate = fixed, each, rate
        self.admission = Admission(EVENTS, target=2.0)
        self.behind, self.now, self.changes = 0.0, 0.0, 0
        self.epochs: list[tuple[int, float]] = []
        self._chance = random.Random(seed)

    def run(self, epochs: int) -> Simulated:
        for _ in range(epochs):
            amount = int(min(self.admission.limit, self.behind))
            seconds = (self.fixed + self.each * amount) * self._chance.uniform(0.8, 1.2)
            seconds *= 8 if self._chance.random() < 0.02 else 1
            self.behind += self.rate(self.now) * seconds - amount
            self.now += seconds
            wanted = self.admission.took(amount, seconds)
            self.epochs.append((amount, seconds))
            if wanted is not None:
                assert EVENTS.floor <= wanted <= EVENTS.ceiling
                self.admission.limit, self.changes = wanted, self.changes + 1
        return self


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("fixed", "each"),
    [(0.25, 1.5e-6), (0.25, 1e-5), (0.3, 1e-4), (0.5, 1e-3)],
    ids=["1.5 µs", "10 µs", "0.1 ms", "1 ms"],
)
def test_the_limit_finds_what_fits_and_stays_there(fixed, each, seed):
    ran = Simulated(fixed, each, lambda _: 10 / each, seed).run(60)
    fits = (2.0 - fixed) / each
    assert fits / 2.2 < ran.admission.limit < fits * 2.2
    assert ran.changes <= 4
    before = ran.changes
    assert ran.run(300).changes - before <= 3, "it flaps"


def test_a_few_events_change_nothing():
    ran = Simulated(0.3, 1e-6, lambda _: 100).run(300)
    assert (ran.changes, ran.admission.limit) == (0, EVENTS.start)


def test_a_surge_fills_epochs_and_changes_no_limit_once_it_is_known():
    ran = Simulated(0.25, 2e-6, lambda now: 400_000 if 60 < now < 120 else 40_000)
    ran.behind = 2_000_000  # it begins with what has piled up
    while ran.now < 60:
        ran.run(1)
    known, first = ran.changes, len(ran.epochs)
    while ran.now < 200:
        ran.run(1)
    surging = ran.epochs[first:]
    assert ran.changes - known <= 1
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
    assert max(fast.changes, slow.changes) <= 4, "at a bound there is nothing to change"
    assert Admission(BYTES, target=1.0, limit=1).limit == BYTES.floor


# on Spark


def write(folder: Path, number: int, events: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = "\n".join(json.dumps({"k": f"k{n % 7}", "n": number * 1000 + n, "pad": "x" * 60}) for n in range(events))
    (folder / f".{number:03}").write_text(rows + "\n")
    (folder / f".{number:03}").rename(folder / f"{number:03}.json")
    os.utime(folder / f"{number:03}.json", (1e9 + number, 1e9 + number))


def begin(app: ps.App, directory: Path, spark, **options) -> Run:
    return app.run(directory, spark=spark, tick=3600.0, **options).start()


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


class Counted(ps.Processor):
    output = "k string, n bigint"
    n = ps.value("bigint", default=0)

    def on_event(self, key: str, event: Any, time: Any) -> None:
        self.n += 1
        self.emit(k=key, n=self.n)


def test_a_stream_made_from_others_takes_another_limit_without_a_restart(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(Admission, "took", lambda self, amount, seconds: 777)
    app = ps.App("stated")
    events = app.stream("events", ps.files(tmp_path / "in", files_per_epoch=1), schema="k string, n bigint")
    app.process("counted", events, Counted, by="k")
    write(tmp_path / "in", 0, 5)
    run = begin(app, tmp_path / "state", spark)
    try:
        run.catch_up()
        query, limits = run.queries["counted"].query.runId, []
        for number in range(1, 4):
            write(tmp_path / "in", number, 5)
            run.catch_up()
            limits.append(last_limits(run.store)["counted"].limit)
        assert limits == [EVENTS.start, 777, 777]  # the first epoch of all tells nothing
        assert run.queries["counted"].query.runId == query, "all of its state was loaded again"
    finally:
        run.stop()
