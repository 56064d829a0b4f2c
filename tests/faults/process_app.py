"""An app with a processor, and the process of it that the kill tests kill.

    python tests/faults/process_app.py DIRECTORY

It says and hears what `tests.faults.app` does. Its fault points lie around epochs and their transactions. A processor
runs in the epochs of its input.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.app import App
from penstock.model.process import Processed
from penstock.runtime.engine import Engine
from penstock.runtime.spark.session import spark_session
from penstock.store import SqliteStore
from tests.faults.app import SCHEMA

STEPS = ("before the reduction", "before the transaction", "after the transaction", "after the epoch")


class Runs(ps.Processor):
    """Sums of a key, given out for each event, and when it has been quiet for a while."""

    output = "k string, what string, n bigint, s bigint, at timestamp"
    n = ps.value("bigint", default=0)
    values = ps.list_of("bigint")
    by_rest = ps.map_of("bigint", "bigint")

    def on_event(self, key, event, time):
        if event.v % 17 == 0:
            raise ValueError("refused")
        self.n += 1
        self.values.append(event.v)
        self.by_rest[event.v % 3] = self.by_rest.get(event.v % 3, 0) + 1
        self.set_timer(time + timedelta(seconds=5), name="quiet")
        yield key, "event", self.n, sum(self.values), time

    def on_timer(self, key, timer):
        yield key, "quiet", self.n, len(self.by_rest), timer.at
        self.clear()


def define(root: Path) -> tuple[App, ps.Stream, Processed]:
    app = App("faulty")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    runs = app.process(
        "runs", events, Runs, by="k", event_time="at", watermark=ps.bounded("1 minute", idle=None), max_ahead=None,
    )  # fmt: skip
    app.view("by_kind", runs.group_by("k", "what").agg(rows=ps.count(), n=ps.sum("n"), s=ps.sum("s")))
    app.sink(runs, ps.to_jsonl(root / "rows"))
    return app, events, runs


def arm(step: str, passes: int, stream: str) -> None:
    """Makes the process kill itself at a fault point, after so many epochs of a stream."""
    left, epoch, commit = {"passes": passes, "inside": 0}, Engine.epoch, SqliteStore.commit

    def at(when: str) -> None:
        if when == step and left["inside"]:
            left["passes"] -= 1
            if left["passes"] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def in_epoch(engine: Engine, name: str, *rest: Any) -> Any:
        left["inside"] = name == stream
        at("before the reduction")
        done = epoch(engine, name, *rest)
        at("after the epoch")
        return done

    def in_commit(store: SqliteStore, *rest: Any) -> Any:
        at("before the transaction")
        done = commit(store, *rest)
        at("after the transaction")
        return done

    Engine.epoch, SqliteStore.commit = in_epoch, in_commit  # type: ignore[method-assign]


def main(define: Callable[[Path], tuple[App, Any, Any]], tick: float, rounds: int = 1, stream: str = "runs") -> None:
    """Says what goes on, dies where it is told in epochs of a stream, and ends once it has caught up so many times."""
    root = Path(sys.argv[1])
    spark = spark_session("faulty", master="local[2]", memory="512m")
    print("warm", flush=True)
    step, _, passes = sys.stdin.readline().strip().partition(":")
    if step:
        arm(step, int(passes), stream)
    run = define(root)[0].start(root / "state", spark=spark, tick=tick)
    print("ready", flush=True)
    while not (root / "END").exists():
        run.wait(0.05)
    for _ in range(rounds):
        run.catch_up()
    run.stop()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(define, tick=3600.0, stream="events")
