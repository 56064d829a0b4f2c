"""The freshness of views and sinks is what a clock measures: from the arrival of events to their commit and delivery.

Epochs come as Spark calls for them, without Spark, and the clock is the test's.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.dataflow.compile import graph_of
from penstock.model.types import Schema
from penstock.runtime.epoch.ages import ages_of
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.sinks import Delivery, to_function
from penstock.sources.base import ARRIVED
from penstock.sources.http import Http
from penstock.sources.http.inbox import Inbox, Offer
from penstock.store.arrivals import KEPT, Ages, DeliveryTime
from penstock.store.freshness import RECENT_ARRIVALS, RECENT_DELIVERIES, SPAN, Freshness, delay, freshness
from tests.runtime.parts import Parts, Rows, stream

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
#: The buckets of ages are 9 % wide.
NEAR = 0.05


class Clock:
    """A clock that a test moves, and that moves by itself when a job runs or a commit is written."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class App(Parts):
    """The parts of a run over one stream with a view, on a test's clock. Rows have the time of their arrival."""

    def __init__(self, folder: Path) -> None:
        events = stream("events", max_ahead=None)
        self.view = events.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count()).trigger(ps.each())
        self.clock = Clock()
        super().__init__(folder, [events], {"counts": self.view})
        self.lifecycle.clock = self.clock
        self.store.commit = self._commits(self.store.commit)  # type: ignore[method-assign]
        self.write_seconds = 0.0

    def _commits(self, commit: Callable[[Any], int]) -> Callable[[Any], int]:
        def committed(record: Any) -> int:
            self.clock.now += int(self.write_seconds * SECOND)  # before the time of the commit is taken
            return commit(record)

        return committed

    def arrive(self, number: int, arrived: list[float] | None, job_seconds: float = 0.0) -> None:
        """An epoch of events that arrived so many seconds before it begins; None if the source does not tell."""
        query = self.queries["events"]
        checkpoint = Path(str(query.checkpoint))
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text('{"id": "query"}')
        (checkpoint / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"end": {number}}}')
        count = 3 if arrived is None else len(arrived)
        frame = pl.DataFrame({"k": ["a"] * count, "v": [1] * count, "at": [number * 60 * SECOND] * count}).with_columns(
            pl.col("at").cast(pl.Datetime("us", "UTC")),
            pl.lit(0, pl.Int32).alias("__partition"),
            (pl.int_range(pl.len(), dtype=pl.Int64) + number * 100_000).alias("__offset"),
        )
        frame = frame.select(*query.columns, "__partition", "__offset")
        if arrived is not None:
            times = [(self.clock.now - int(seconds * SECOND)) // 1000 for seconds in arrived]
            frame = frame.with_columns(pl.Series(ARRIVED, times))

        def runs(pool: str | None) -> None:
            self.clock.now += int(job_seconds * SECOND)

        self.loop.take(query, Rows(frame.to_arrow(), on_job=runs), number)  # type: ignore[arg-type]

    def fresh(self) -> Freshness:
        since = self.clock.now - SPAN
        found = [self.store.query(text, [since]).rows() for text in (RECENT_ARRIVALS, RECENT_DELIVERIES)]
        return freshness(*found, {"counts": ["events"]}, since)


@pytest.fixture
def app(tmp_path):
    made = App(tmp_path)
    yield made
    made.close()


def test_the_figure_is_the_time_from_arrival_to_the_commit(app):
    random.seed(5)
    ages = [random.expovariate(2.0) for _ in range(2_000)]
    app.write_seconds = 0.02
    app.arrive(0, ages, job_seconds=0.1)
    delays = sorted(age + 0.12 for age in ages)
    figure = app.fresh().views["counts"]
    assert figure.events == 2_000
    assert figure.median == pytest.approx(delays[1_000], rel=NEAR)
    assert figure.high == pytest.approx(delays[1_980], rel=NEAR)


def test_epochs_of_one_minute_count_by_their_events_and_older_ones_do_not_count(app):
    app.arrive(0, [30.0] * 50)
    app.clock.now += 59 * SECOND
    app.arrive(1, [1.0] * 150)
    both = app.fresh().views["counts"]
    assert (both.events, both.median) == (200, pytest.approx(1.0, rel=NEAR))
    assert both.high == pytest.approx(30.0, rel=NEAR)
    app.clock.now += 2 * SECOND
    assert app.fresh().views["counts"].events == 150
    app.clock.now += SPAN
    assert not app.fresh().views


def test_a_sink_counts_up_to_its_delivery_and_only_what_it_delivers(app):
    received: list[Any] = []

    def slow(rows: list[Any]) -> None:
        app.clock.now += 3 * SECOND
        received.extend(rows)

    delivery = Delivery(
        app.store, {"out": ("counts", app.view, to_function(slow))}, commit_positions=app.store.delivered,
        trim=app.store.trim_outbox, patience=60.0, now=app.clock,
    )  # fmt: skip
    assert not app.fresh().sinks
    app.arrive(0, [0.5] * 10)
    app.clock.now += SECOND  # until the sink is woken
    delivery.deliver()
    delivery.close()
    figures = app.fresh()
    assert received
    assert figures.sinks["out"].median == pytest.approx(4.5, rel=NEAR)
    assert figures.views["counts"].median == pytest.approx(0.5, rel=NEAR)


def test_a_sink_that_was_away_for_long_shows_the_age_of_what_it_delivers(app):
    app.arrive(0, [0.5] * 10)
    app.clock.now += 3600 * SECOND
    for number in range(1, 120):  # the ages of the first commit are trimmed meanwhile
        app.arrive(number, [0.1])
    assert app.store.query("SELECT min(written) FROM __arrivals").item() > app.clock.now - KEPT
    app.store.delivered({"out": 1}, [DeliveryTime("out", 1, app.clock.now)])
    assert app.fresh().sinks["out"].median == pytest.approx(3600, rel=NEAR)


def test_ticks_and_retried_dead_letters_do_not_count(app):
    app.arrive(0, [0.5] * 10)
    engine = app.groups.of("events").engine
    app.clock.now += SECOND
    engine.tick(app.clock.now, {"events": 10 * 60 * SECOND})
    places = pl.DataFrame(schema={"commit": pl.Int64, "partition": pl.Int32, "offset": pl.Int64})
    retried = EpochOrigin("dead-letter:events", 0, "{}", retried={"events": places}, clock=app.clock)
    frame = pl.DataFrame({"k": ["z"], "v": [1], "at": [0], "__partition": [0], "__offset": [7]}).with_columns(
        pl.col("at").cast(pl.Datetime("us", "UTC")), pl.col("__partition").cast(pl.Int32)
    )
    engine.epoch("events", ("k", "v", "at"), frame.to_arrow(), retried, app.clock.now)
    assert app.fresh().views["counts"].events == 10
    assert app.store.query("SELECT count(*) FROM __commits").item() == 3


def test_a_source_that_does_not_tell_counts_from_when_spark_handed_the_epoch_over(app):
    app.write_seconds = 0.25
    app.arrive(0, None, job_seconds=2.0)
    figure = app.fresh().views["counts"]
    assert (figure.events, figure.median) == (3, pytest.approx(2.25, rel=NEAR))


def test_events_after_downtime_show_as_old_and_figures_survive_a_restart(app, tmp_path):
    app.arrive(0, [7200.0, 7200.0, 0.1])
    assert app.fresh().views["counts"].median == pytest.approx(7200, rel=NEAR)
    app.store.close()
    app.store.lock()
    assert app.fresh().views["counts"].events == 3


def test_a_derived_stream_has_the_ages_of_the_events_that_it_reads(app):
    app.arrive(0, [9.0])
    app.arrive(1, [0.5] * 3)
    app.clock.now += SECOND
    app.arrive(2, [0.2])
    ages = app.store.ages_between(["events"], 1, 3, app.clock.now)
    assert [(pytest.approx(age, rel=NEAR), count) for age, count in ages.items()] == [(200, 1), (1_500, 3)]
    app.store._writing().run("DELETE FROM __arrivals")  # of commits of long ago only their time is known
    app.store._writing().commit()
    assert app.store.ages_between(["events"], 0, 1, app.clock.now) == Ages.of([1_000])


def test_clocks_that_differ_give_no_negative_ages():
    rows = pl.DataFrame({ARRIVED: [START // 1000 + 5_000]})
    assert ages_of(rows, START) == Ages.of([0])


def test_of_many_rows_a_sample_counts_for_all():
    random.seed(7)
    times = [START // 1000 - int(random.expovariate(1 / 300)) for _ in range(50_007)]
    ages = ages_of(pl.DataFrame({ARRIVED: times}), START)
    exact = Ages.of([START // 1000 - time for time in times])
    assert ages.events == exact.events == 50_007
    sampled, all_of_them = delay(list(ages.items())), delay(list(exact.items()))
    assert sampled is not None
    assert all_of_them is not None
    assert sampled.median == pytest.approx(all_of_them.median, rel=0.1)
    assert sampled.high == pytest.approx(all_of_them.high, rel=0.1)


def test_rows_of_files_arrive_when_the_file_was_written(tmp_path):
    for name, seconds in (("a", 10), ("b", 2)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, ns=(0, (START - seconds * SECOND) * 1000))
    paths = [f"file:{tmp_path / 'a'}"] * 4 + [str(tmp_path / "b")] * 2 + [str(tmp_path / "gone")]
    ages = ages_of(pl.DataFrame({"__path": paths}), START)
    assert ages == Ages.of([10_000], 4) + Ages.of([2_000], 2)


def test_events_over_http_arrive_when_the_server_has_them(tmp_path):
    inbox = Inbox(tmp_path)
    inbox.put([Offer(pl.DataFrame({"v": [1, 2]}), None, "", 0)])
    (path,) = tmp_path.glob("*.parquet")
    os.utime(path, ns=(0, (START - SECOND) * 1000))
    (frame,) = Http("in").frames(pl.DataFrame({"__path": [str(path)]}), Schema.parse("v bigint"))
    assert ages_of(frame, START) == Ages.of([1_000], 2)


def test_a_view_behind_operators_is_fed_by_the_sources_of_its_group():
    app = ps.App("chain")
    options: dict[str, Any] = {
        "schema": "k string, at timestamp",
        "event_time": "at",
        "watermark": ps.bounded("0 seconds"),
    }
    left, right = (app.stream(name, ps.files(name), **options) for name in ("left", "right"))
    pairs = app.join("pairs", left, right, on="k", within=("0 seconds", "1 minute"), prefix="r_")
    app.view("both", pairs.group_by("k").agg(n=ps.count()))
    app.view("one", left.group_by("k").agg(n=ps.count()))
    assert graph_of(app).feeding == {"both": {"left", "right"}, "one": {"left"}}
