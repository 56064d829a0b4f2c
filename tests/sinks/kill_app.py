"""The process that the kill test kills: delivers what a store holds into files.

    python tests/sinks/kill_app.py DIRECTORY [STEP PASSES]

With a step it ends itself there, at that pass. It says «done» when every sink has everything.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from penstock.kernel.plan import Plan
from penstock.sinks import Delivery, directory, to_jsonl, to_parquet
from penstock.store import SqliteStore
from tests.sinks.support import LIVE

STEPS = ("before the rename", "after the rename", "before the store", "after the store")


def main() -> None:
    root = Path(sys.argv[1])
    step, left = (sys.argv[2], [int(sys.argv[3])]) if len(sys.argv) > 2 else ("", [0])

    def at(when: str) -> None:
        if when == step:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    rename = os.rename

    def rename_with_faults(before: Path, after: Path) -> None:
        at("before the rename")
        rename(before, after)
        at("after the rename")

    directory.os.rename = rename_with_faults  # type: ignore[attr-defined]
    store = SqliteStore.open(root / "state")
    store.lock()
    store.prepare({"v": Plan(LIVE)})

    def commit_position(sink: str, position: int) -> None:
        at("before the store")
        store.delivered(sink, position)
        at("after the store")

    sinks = {
        "lines": ("v", LIVE, to_jsonl(root / "lines", rows_per_file=2)),
        "columns": ("v", LIVE, to_parquet(root / "columns", rows_per_file=3)),
    }
    delivery = Delivery(store, sinks, commit_position=commit_position, trim=store.trim_outbox, keep=10, patience=60)
    delivery.deliver()
    assert not delivery.failures, delivery.failures
    delivery.close()
    store.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
