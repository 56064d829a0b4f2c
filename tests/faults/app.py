"""The app that the kill tests kill: reads a growing directory, keeps three views, and can end itself at a named step.

    python tests/faults/app.py DIRECTORY [STEP]

It says «ready» when it reads and «done» when it has caught up with the file END in the input directory.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.engine import core
from penstock.store import sqlite

SCHEMA = "id bigint, k string, v bigint, at timestamp"


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
        "sessions", events.group_by("k").window(ps.session("3 seconds")).agg(n=ps.count(), top=ps.max("v")).retracting()
    )
    app.view("total", events.group_by().agg(n=ps.count(), s=ps.sum("v"), ids=ps.count_distinct("id")))
    app.sink("sessions", ps.to_jsonl(root / "panes"))
    return app


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(step: str) -> None:
    """Makes the process kill itself at a step of the commit protocol, the third time it gets there."""
    passes = {"left": 3}

    def at(when: str) -> None:
        if when == step:
            passes["left"] -= 1
            if passes["left"] == 0:
                kill()

    epoch, commit = core.Engine.epoch, sqlite.SqliteStore.commit

    def epoch_with_faults(self, *arguments):
        at("before the reduction")
        done = epoch(self, *arguments)
        at("after the commit")
        return done

    def commit_with_faults(self, record):
        at("before the commit")
        number = commit(self, record)
        at("after the transaction")
        return number

    core.Engine.epoch = epoch_with_faults
    sqlite.SqliteStore.commit = commit_with_faults


STEPS = ("before the reduction", "before the commit", "after the transaction", "after the commit")


def main() -> None:
    root = Path(sys.argv[1])
    if len(sys.argv) > 2:
        arm(sys.argv[2])
    run = make_app(root).run(root / "state", master="local[2]", tick=0.1).start()
    print("ready", flush=True)
    while not (root / "END").exists():
        run.wait(0.05)
    run.catch_up()
    run.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main()
