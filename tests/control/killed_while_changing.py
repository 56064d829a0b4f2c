"""A process that dies while its app changes: `python -m tests.control.killed_while_changing FOLDER PLACE`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from penstock.runtime.spark.session import spark_session
from penstock.store import SqliteStore
from tests.control.changing import Changing


def die(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(root: Path, place: str) -> None:
    changing = Changing(root, spark_session("dying", master="local[1]"), "one view")
    changing.put(10)
    changing.check()
    owner, name = {"changing": (SqliteStore, "note_graph"), "starting": (changing.live._update, "_switch")}[place]
    setattr(owner, name, die)
    changing.apply("another window")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
