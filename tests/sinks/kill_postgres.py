"""The process that the kill test of PostgreSQL kills: delivers what a store holds into two tables.

    python tests/sinks/kill_postgres.py DIRECTORY ADDRESS [STEP PASSES]

With a step it ends itself there, at that pass. It says 'done' when every sink has everything.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.sinks import to_postgres
from penstock.sinks.postgres_session import Session
from tests.sinks.support import deliver_with_faults

STEPS = ("before COMMIT", "after COMMIT", "before the store", "after the store")


def main() -> None:
    root, url = Path(sys.argv[1]), sys.argv[2]
    step, left = (sys.argv[3], [int(sys.argv[4])]) if len(sys.argv) > 3 else ("", [0])

    def at(when: str) -> None:
        if when == step:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    run = Session.run

    def run_with_faults(self: Session, statement: str) -> list[tuple[Any, ...]]:
        at(f"before {statement}")
        found = run(self, statement)
        at(f"after {statement}")
        return found

    Session.run = run_with_faults  # type: ignore[method-assign]
    sinks = {
        "shown": to_postgres("shown", url=url, rows_per_transaction=7),
        "panes": to_postgres("panes", url=url, rows_per_transaction=5, mode="panes"),
    }
    deliver_with_faults(root, at, sinks)


if __name__ == "__main__":
    main()
