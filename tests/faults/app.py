"""The app that the kill tests kill: reads a growing directory, keeps three views, and can end itself at a named step.

    python tests/faults/app.py DIRECTORY

It starts Spark, says «warm», and waits for a line: a step at which to end itself and how often to pass it before,
«before the commit:2», or nothing. Then it says «ready» when it reads, and «done» when it has caught up with all that is
there after the file END.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.engine import core
from penstock.engine.run import Run
from penstock.engine.session import spark_session
from penstock.store import sqlite

SCHEMA = "id bigint, k string, v bigint, at timestamp"
STEPS = (
    "before the reduction",
    "before the transaction",
    "before the transaction ends",
    "after the transaction",
    "after the epoch",
    "before a delivery is known",
    "after a delivery is known",
)


def make_app(root: Path) -> App:
    app = App("killed")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    app.view(
        "counts",
        events.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v")).allow_late("1 minute"),
    )
    app.view(
        "sessions",
        events.group_by("k")
        .window(ps.session("3 seconds"))
        .agg(n=ps.count(), top=ps.max("v"))
        .trigger(ps.on_time(early=ps.each()))
        .retracting(),
    )
    app.view("total", events.group_by().agg(n=ps.count(), s=ps.sum("v"), ids=ps.count_distinct("id")))
    app.sink("sessions", ps.to_jsonl(root / "panes"))
    return app


def arm(step: str, passes: int) -> None:
    """Makes the process kill itself at a step of the commit protocol, after so many passes."""
    left = {"passes": passes}

    def at(when: str) -> None:
        if when == step:
            left["passes"] -= 1
            if left["passes"] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    epoch, commit, write, delivered = core.Engine.epoch, sqlite.SqliteStore.commit, sqlite.write, Run._delivered

    def epoch_with_faults(self, *arguments, **options):
        at("before the reduction")
        done = epoch(self, *arguments, **options)
        at("after the epoch")
        return done

    def commit_with_faults(self, record):
        at("before the transaction")
        number = commit(self, record)
        at("after the transaction")
        return number

    def write_with_faults(*arguments):
        number = write(*arguments)
        at("before the transaction ends")
        return number

    def delivered_with_faults(self, *arguments):
        at("before a delivery is known")
        delivered(self, *arguments)
        at("after a delivery is known")

    core.Engine.epoch = epoch_with_faults
    sqlite.SqliteStore.commit = commit_with_faults
    sqlite.write = write_with_faults
    Run._delivered = delivered_with_faults


def main() -> None:
    root = Path(sys.argv[1])
    spark = spark_session("killed", master="local[2]", memory="512m")
    print("warm", flush=True)
    step, _, passes = sys.stdin.readline().strip().partition(":")
    if step:
        arm(step, int(passes))
    run = make_app(root).run(root / "state", spark=spark, tick=0.1).start()
    print("ready", flush=True)
    while not (root / "END").exists():
        run.wait(0.05)
    run.catch_up()
    run.stop()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
