"""User code that hangs is named, with its operator and the row or key, on the driver and in tasks."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import polars as pl
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import cli
from penstock.dataflow.process_stream import processor_stream
from penstock.model.running_code import operator, running
from penstock.model.time import instant
from penstock.model.types import Schema
from penstock.model.user_rows import RowCode
from penstock.runtime.code_watch import CallWatcher, CodeMonitor, TaskWatch
from penstock.runtime.commit.shards import Shards
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.store import SqliteStore
from penstock.store.long_calls import LONG_CALLS, LongCall, packed, parsed
from tests.faults.support import until

NOW = instant("2024-05-01T13:00:00Z")
#: Seconds after which code is named here.
SOON = 0.05


def test_a_call_that_does_not_get_on_is_found_and_one_that_does_is_not():
    now, done = [0.0], list[int]()
    watcher = CallWatcher(10.0, lambda: now[0])
    with operator("enrich"), running("map(slow)", done):
        assert watcher.look(3) == []
        now[0] = 9.0
        done.append(1)
        assert watcher.look(3) == []
        now[0] = 18.0
        assert watcher.look(3) == [], "it has got on since"
        now[0] = 19.0
        assert watcher.look(3) == [LongCall("enrich", "map(slow)", 10.0, 3, "row 1")]
    assert watcher.look(3) == []


def test_functions_of_rows_say_at_which_row_they_are():
    watcher, seen = CallWatcher(0.0), list[Any]()

    def slow(row):
        seen.append(watcher.look())
        return {"n": 1}

    RowCode(slow, "map(slow)", Schema.parse("v int"), Schema.parse("n int")).mapped([[1, 2]])
    assert [[call.position for call in calls] for calls in seen] == [["row 0"], ["row 1"]]


def test_a_task_tells_by_a_file_that_goes_when_the_call_is_over(tmp_path):
    watch = TaskWatch(str(tmp_path / "running"), SOON)
    with watch.task(3), operator("enrich"), running("map(slow)"):
        until(lambda: list(tmp_path.glob("running/*.json")))
        (path,) = tmp_path.glob("running/*.json")
        (call,) = json.loads(path.read_text())
        assert (call["operator"], call["function"], call["task"]) == ("enrich", "map(slow)", 3)
    until(lambda: not path.exists())


def test_the_driver_hears_of_tasks_and_logs_each_call_once(tmp_path, caplog):
    call = LongCall("enrich", "map(slow)", 42.0, 3, "row 17")
    monitor = CodeMonitor(str(tmp_path), lambda text: None)
    (tmp_path / "host-7.json").write_text(packed([call]))
    with caplog.at_level(logging.WARNING, "penstock.runtime"):
        assert monitor.look() == monitor.look() == [call]
    assert caplog.messages == ["operator 'enrich' has run map(slow) for 42 s in task 3, at row 17"]


class App:
    """An app with a function and a processor that hang until they are released; its epochs run here."""

    def __init__(self, directory: Path) -> None:
        self.function_released, self.processor_released = threading.Event(), threading.Event()
        function_released, processor_released = self.function_released, self.processor_released

        def slow(row):
            function_released.wait()
            return {"k": row.k, "at": row.at}

        class Slow(ps.Processor):
            output = "k string, at timestamp"

            def on_event(self, key, event, at):
                processor_released.wait()
                yield {"k": key, "at": at}

        schema = "k string, at timestamp"
        self.events = ps.stream("events", schema=schema, event_time="at", watermark=ps.bounded("1 second"))
        mapped = self.events.map(slow, schema=schema)
        processed = processor_stream("processed", mapped, Slow, by="k", event_time="at")
        views = {"by_key": processed.group_by("k").agg(n=ps.count())}
        streams = {"events": self.events, "processed": processed.stream}
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self.engine = Engine(streams, self.store, NOW, lambda name: True, shards=Shards(self.store))
        self.engine.registry.keep(views)
        self.monitor = CodeMonitor(str(directory / "running"), self.store.note_long_calls, SOON)

    def epoch(self) -> None:
        rows = pl.DataFrame({"k": ["ann"], "at": [NOW]}).with_columns(
            pl.from_epoch("at", time_unit="us").dt.replace_time_zone("UTC"),
            pl.lit(0, pl.Int32).alias("__partition"),
            pl.lit(0, pl.Int64).alias("__offset"),
        )
        self.engine.begin_operators(NOW)
        self.engine.epoch("events", ("k", "at"), rows.to_arrow(), EpochOrigin("events", 0, "0"), NOW)

    def calls(self) -> list[LongCall]:
        return [call for text in self.store.query(LONG_CALLS)["statement"] for call in parsed(text)]


def test_status_names_code_that_hangs(tmp_path: Path):
    app = App(tmp_path / "state")
    epoch = threading.Thread(target=app.epoch)
    app.monitor.start()
    epoch.start()
    try:
        until(app.calls)
        (call,) = app.calls()
        assert (call.operator, call.function, call.task, call.position) == ("processed", "map(slow)", None, "row 0")
        status = CliRunner().invoke(cli, ["status", "--dir", str(tmp_path / "state")])
        assert "operator 'processed' has run map(slow) for" in status.output
        app.function_released.set()
        until(lambda: any(call.function == "Slow.on_event" for call in app.calls()))
        (call,) = app.calls()
        assert (call.operator, call.task, call.position) == ("processed", None, "key ann")
    finally:
        app.function_released.set()
        app.processor_released.set()
        epoch.join()
    until(lambda: not app.calls())
    app.monitor.stop()
    assert app.store.query("SELECT k, n FROM by_key").rows() == [("ann", 1)]
    app.store.close()
