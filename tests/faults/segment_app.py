"""The app with its views by key and its ids in segments, and the process of it that the kill tests kill.

`python tests/faults/segment_app.py DIRECTORY` says and hears what `tests.faults.app` does. Its fault points lie around
the tasks that write segments, and around compaction.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.control import Live
from penstock.runtime.commit.shards import Shards
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session
from penstock.store import SqliteStore
from tests.faults.app import on_files

WRITTEN, REPLACED = "tasks have written segments", "compaction has replaced the list"
STEPS = (
    "before tasks write segments",
    WRITTEN,
    "before the transaction",
    "after the transaction",
    "before compaction replaces the list",
    REPLACED,
)


def arm(step: str, passes: int) -> None:
    """Makes the process kill itself at a fault point, after so many passes."""
    left = {"passes": passes}

    def at(when: str) -> None:
        if when == step:
            left["passes"] -= 1
            if left["passes"] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(owner: type, name: str, before: str, after: str) -> None:
        inner = getattr(owner, name)

        def outer(*arguments: Any) -> Any:
            at(before)
            done = inner(*arguments)
            at(after)
            return done

        setattr(owner, name, outer)

    around(Shards, "run", "before tasks write segments", WRITTEN)
    around(SqliteStore, "commit", "before the transaction", "after the transaction")
    around(SqliteStore, "replace_segments", "before compaction replaces the list", REPLACED)


def place_in_tasks(run: Run) -> None:
    """Few rows go to tasks too, and few ids are in segments."""
    shards = run.large_state.shards
    shards._few_rows = shards._few_deltas = 0
    if run.store.known_ids.sharded("events") is None:
        run.store.known_ids.shard("events", 4)


def main() -> None:
    root = Path(sys.argv[1])
    spark = spark_session("faulty", master="local[2]", memory="512m")
    print("warm", flush=True)
    step, _, passes = sys.stdin.readline().strip().partition(":")
    if step:
        arm(step, int(passes))
    live = Live(on_files(root, state="sharded", shards=4)[0], root / "state", spark=spark, tick=0.1)
    place_in_tasks(live.run)
    live.start()
    print("ready", flush=True)
    while not (root / "END").exists():
        live.wait(0.05)
    live.catch_up()
    live.stop()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
