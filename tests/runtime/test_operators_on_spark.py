"""Joins and processors in a run: in Spark's tasks, over savepoints, and when they come and go while it runs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.app import App
from penstock.history.events.event_history import EventHistory
from penstock.history.savepoints.restore import restore
from penstock.model.process import Processed
from penstock.runtime.epoch.operator_job import OperatorJob
from penstock.runtime.errors import RunError
from penstock.runtime.queries.checkpoints import prepare_checkpoints
from penstock.runtime.run import Run
from penstock.store import SqliteStore
from penstock.store.checkpoints import Place
from tests.faults.operators import OperatorApp, compare, made_steps
from tests.faults.segments import FailingJob

FILES = 4
VIEWS = ("by_pair", "by_run")


class Runs(ps.Processor):
    """Numbers the events of each key, and says after each how many there are two seconds later."""

    output = "k string, n bigint, at timestamp"
    n = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.n += 1
        self.set_timer(time + timedelta(seconds=2))
        yield key, self.n, time

    def on_timer(self, key, timer):
        yield f"{key}!", self.n, timer.at


def plain(root: Path) -> App:
    """The app without operators."""
    (root / "in").mkdir(exist_ok=True)
    app = App("operators")
    app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema="id bigint, k string, at timestamp", event_time="at",
        watermark=ps.bounded("3 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    return app


def define(root: Path) -> tuple[App, ps.Stream, Processed]:
    app = plain(root)
    events = app.streams["events"]
    even = events.where("id % 2 = 0").select("id", "k", "at")
    odd = events.where("id % 2 = 1").select("k", other="id", then="at")
    pairs = app.join(
        "pairs", even, odd, on="k", within=("-4 seconds", "4 seconds"), how="left", event_time="at", max_ahead=None
    )
    runs = app.process("runs", events, Runs, by="k", event_time="at", max_ahead=None)
    for name, view in views(pairs, runs).items():
        app.view(name, view)
    return app, pairs, runs


def views(pairs: ps.Stream, runs: Processed) -> dict[str, ps.View]:
    return {
        "by_pair": pairs.group_by("k").agg(n=ps.count(), others=ps.count("other")),
        "by_run": runs.group_by("k").agg(n=ps.count(), newest=ps.max("n")),
    }


def put(root: Path, number: int) -> None:
    """A file of events, an epoch. Each is four seconds after the one before."""
    (root / "in").mkdir(exist_ok=True)
    ids = range(number * 8, number * 8 + 8)
    lines = [{"id": n, "k": "abc"[n * 7 % 3], "at": f"2000-01-01T12:00:{number * 4 + n * 5 % 7:02}Z"} for n in ids]
    hidden = root / ".hidden"
    hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hidden.rename(root / "in" / f"{number}.json")


def result(run: Run, pairs: ps.Stream, runs: Processed) -> dict[str, list[Any]]:
    """What a run has come to: the rows of both operators, with their positions, and the views."""
    history = EventHistory(run.store)
    found: dict[str, list[Any]] = {}
    for stream, columns in ((pairs, ("id", "k", "other")), (runs.stream, ("k", "n", "at"))):
        rows = history.past(stream).read()
        assert sorted(rows["__offset"]) == list(range(rows.height)), "each row has its own position"
        found[stream.name] = sorted(rows.select(columns).rows(), key=repr)
    shown = [name for name in VIEWS if name in run.views]
    found |= {name: sorted(run.store.query(f"SELECT * FROM {name}").rows(), key=repr) for name in shown}
    state = run.processor_state("runs")
    found["state"] = sorted(state.select(sorted(state.columns)).rows(), key=repr)
    return found


def started(app: App, directory: Path, spark: Any) -> Run:
    return app.start(directory, spark=spark, tick=3600.0)


def test_a_savepoint_holds_operators_and_a_restored_app_goes_on(spark, tmp_path: Path):
    app, pairs, runs = define(tmp_path)
    run = started(app, tmp_path / "state", spark)
    try:
        for number in range(FILES):
            if number == 2:
                point = run.savepoint("cut")
                at_the_cut = result(run, pairs, runs)
            put(tmp_path, number)
            run.catch_up()
        want = result(run, pairs, runs)
    finally:
        run.stop()
    assert want != at_the_cut
    assert any(name.endswith("!") for name, *_ in want["runs"]), "timers have fired"
    restore(point, tmp_path / "state", force=True)
    again = started(define(tmp_path)[0], tmp_path / "state", spark)
    try:
        again.catch_up()
        compare(result(again, pairs, runs), want)
    finally:
        again.stop()


def without_views(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A view that comes later begins with the next epoch: here operators alone are compared."""
    return {name: rows for name, rows in found.items() if name not in VIEWS}


def test_operators_come_and_go_while_an_app_runs(spark, tmp_path: Path):
    app, pairs, runs = define(tmp_path)
    put(tmp_path, 0)
    first, later = started(app, tmp_path / "first", spark), started(plain(tmp_path), tmp_path / "later", spark)
    try:
        for number in range(FILES):
            put(tmp_path, number)
            first.catch_up()
            later.catch_up()
            if number == 1:
                add(later, pairs, runs)
                compare(result(later, pairs, runs), without_views(result(first, pairs, runs)))
        compare(result(later, pairs, runs), without_views(result(first, pairs, runs)))
        later.drop_stream("pairs")
        later.drop_stream("runs")
        assert not later.store.query("SELECT stream FROM __operators").height
        add(later, pairs, runs)
        put(tmp_path, FILES)
        first.catch_up()
        later.catch_up()
        compare(result(later, pairs, runs), without_views(result(first, pairs, runs)))
    finally:
        first.stop()
        later.stop()


def add(run: Run, pairs: ps.Stream, runs: Processed) -> None:
    """Adds the operators to an app that runs."""
    run.add_stream("pairs", pairs)
    run.add_stream("runs", runs.stream)


def test_state_that_spark_kept_for_an_operator_is_rejected(tmp_path: Path):
    app, _, _ = define(tmp_path)
    store = SqliteStore.open(tmp_path / "state")
    store.lock()
    checkpoints = Place(str(tmp_path / "checkpoints"))
    prepare_checkpoints(checkpoints, app.streams, store)
    (tmp_path / "checkpoints" / "runs" / "state").mkdir(parents=True)
    with pytest.raises(RunError, match="the state of 'runs' was written by an earlier version") as error:
        prepare_checkpoints(checkpoints, app.streams, store)
    assert "give the stream another name" in str(error.value)
    assert (tmp_path / "checkpoints" / "runs" / "state").exists(), "nothing is removed"
    store.close()


class OnSpark(OperatorApp):
    """The app of the faults; operators are stepped in Spark's tasks."""

    def __init__(self, directory: Path, steps: Any, operators: Any, spark: Any) -> None:
        self.spark = spark
        super().__init__(directory, steps, operators, few_rows=0)

    def open(self) -> None:
        self.session = self.spark
        super().open()

    def frame(self, rows: Any) -> Any:
        return self.spark.createDataFrame(rows).repartition(2)


def test_operators_in_tasks_give_what_the_driver_gives_also_when_a_task_fails_after_its_file(spark, tmp_path: Path):
    operators, steps = ("joined", "totals"), made_steps(3, ticks=False)
    driver = OperatorApp(tmp_path / "driver", steps, operators)
    driver.run()
    app = OnSpark(tmp_path / "tasks", steps, operators, spark)
    run, failed = app.shards.run, []

    def failing(job: Any) -> Any:
        if not isinstance(job, OperatorJob):
            return run(job)
        failed.append(job.tasks)
        return run(FailingJob(job, str(tmp_path)))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.shards, "run", failing)
        with pytest.raises(Exception, match="Fault: OperatorJob"):
            app.run()
        app.run()
    assert len(failed) > 3
    assert set(failed) == {2}, "several tasks stepped them"
    compare(app.checked(), driver.checked())
