"""The process that the kill test kills: delivers what a store holds into files.

    python tests/sinks/kill_app.py DIRECTORY [STEP PASSES]

With a step it ends itself there, at that pass. It says 'done' when every sink has everything.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from penstock.sinks import directory, to_jsonl, to_parquet
from tests.sinks.support import deliver_with_faults

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
    sinks = {
        "lines": to_jsonl(root / "lines", rows_per_file=2),
        "columns": to_parquet(root / "columns", rows_per_file=3),
    }
    deliver_with_faults(root, at, sinks)


if __name__ == "__main__":
    main()
