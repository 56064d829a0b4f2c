"""The app that all faults are tried on, and the process of it that the kill tests kill.

    python tests/faults/app.py DIRECTORY

It says 'warm' when Spark is there, and waits for a line: a fault point with the number of passes after which it is to
kill itself there, or 'add a view', or nothing. Then it reads the files in DIRECTORY/in until there is a file
DIRECTORY/END. It says 'ready' when it reads, and 'done' when all files that were there at the end are committed.
Further lines may come while it reads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.history.savepoints.checkpoints import Checkpoints
from penstock.runtime import engine as core
from penstock.runtime.spark.session import spark_session
from penstock.sinks.directory import Directory
from penstock.sources import Source
from penstock.store import sql_store, view_states
from penstock.store.sqlite.store import SqliteStore

SCHEMA = "id bigint, k string, v bigint, at timestamp"
SAVEPOINT, ADDED = "while a savepoint is taken", "while a view is added"
ADD = "add a view"
STEPS = (
    "before the reduction",
    "before the transaction",
    "before the transaction ends",
    "after the transaction",
    "after the epoch",
    "before a tick's transaction ends",
    "before a sink has its panes",
    "before a delivery is known",
    "after a delivery is known",
    SAVEPOINT,
    ADDED,
)


def define(
    log: Source, watermark: ps.Watermark | None = None, state: str | None = None, shards: int | None = None
) -> tuple[App, ps.Stream]:
    """The app on a log, without sinks. `audit` knows what its views must hold.

    `state` and `shards` say where the views by key have their state.
    """
    app = App("faulty")
    events = app.stream(
        "events", log, schema=SCHEMA, event_time="at",
        watermark=watermark or ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    app.view(
        "counts",
        events.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v")).allow_late("1 minute"),
        state=state,
        shards=shards,
    )
    app.view(
        "sessions",
        events.group_by("k")
        .window(ps.session("3 seconds"))
        .agg(n=ps.count(), top=ps.max("v"))
        .trigger(ps.on_time(early=ps.each()))
        .retracting(),
        state=state,
        shards=shards,
    )
    app.view("total", events.group_by().agg(n=ps.count(), s=ps.sum("v"), ids=ps.count_distinct("id")))
    app.view("beats", events.group_by().agg(n=ps.count()).trigger(ps.every("0.2 seconds")))
    return app, events


def on_files(root: Path, **options: object) -> tuple[App, ps.Stream]:
    """The app on files, a file an epoch, with the panes of a view in other files."""
    app, events = define(ps.files(root / "in", files_per_epoch=1), **options)  # type: ignore[arg-type]
    app.sink("sessions", ps.to_jsonl(root / "panes"))
    return app, events


def arm(step: str, passes: int) -> None:
    """Makes the process kill itself at a fault point, after so many passes."""
    left = {"passes": passes}

    def at(when: str) -> None:
        if when == step:
            left["passes"] -= 1
            if left["passes"] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(owner: object, name: str, before: str | None, after: str | Callable[..., str] | None) -> None:
        """Fault points before and after a function."""
        inner = getattr(owner, name)

        def outer(*arguments, **options):
            if before is not None:
                at(before)
            done = inner(*arguments, **options)
            if after is not None:
                at(after if isinstance(after, str) else after(*arguments))
            return done

        setattr(owner, name, outer)

    def written(connection: object, record: core.Commit, *_: object) -> str:
        return "before a tick's transaction ends" if record.kind == "tick" else "before the transaction ends"

    around(core.Engine, "epoch", "before the reduction", "after the epoch")
    around(SqliteStore, "commit", "before the transaction", "after the transaction")
    around(sql_store, "write", None, written)
    around(Directory, "write", "before a sink has its panes", None)
    around(SqliteStore, "delivered", "before a delivery is known", "after a delivery is known")
    around(Checkpoints, "cut", SAVEPOINT, None)
    around(view_states, "prepare", None, lambda _, views, *__: ADDED if "added" in views else "")


def armed(line: str) -> str:
    """The step that a line names; a fault point is armed."""
    step, _, passes = line.strip().partition(":")
    if step in STEPS:
        arm(step, int(passes))
    return step


def main() -> None:
    root = Path(sys.argv[1])
    spark = spark_session("faulty", master="local[2]", memory="512m")
    print("warm", flush=True)
    step = armed(sys.stdin.readline())
    app, events = on_files(root)
    run = app.start(root / "state", spark=spark, tick=0.1)
    print("ready", flush=True)

    def act(step: str) -> None:
        if step == SAVEPOINT:
            run.savepoint("cut")
        if step in (ADDED, ADD):
            run.add_view("added", events.group_by("k").agg(n=ps.count()))

    act(step)
    threading.Thread(target=lambda: [act(armed(line)) for line in sys.stdin], daemon=True).start()
    while not (root / "END").exists():
        run.wait(0.05)
    run.catch_up()
    run.stop()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
