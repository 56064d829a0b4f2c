"""An app in the test's own process, with a producer before it and the audit behind it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from penstock.app import App
from penstock.model.time import show_instant
from penstock.runtime.run import Run
from penstock.store import Reader
from tests.faults.app import on_files
from tests.faults.audit import Audit, made_up

#: So long something may take before a test gives up. Nothing is measured by it.
LONG = 240.0


def until(what: Callable[[], object], run: Run | None = None, seconds: float = LONG) -> float:
    """Waits for something; how many seconds it took. A run that fails meanwhile raises."""
    begun = time.monotonic()
    while not what():
        assert time.monotonic() < begun + seconds, "it did not come"
        if run is None:
            time.sleep(0.01)
        else:
            run.wait(0.01)
    return time.monotonic() - begun


class Rig:
    """The app of `define` on files, a producer that writes them, and what was produced so far."""

    def __init__(self, spark: Any, root: Path, events: int = 2000, **options: Any) -> None:
        self.spark, self.root, self.state, self.options = spark, root, root / "state", options
        self.rows, self.sent, self.dead = made_up(events), 0, 0
        self.produced: list[dict] = []
        self.files, self.poison = 0, 0
        self._begun = int(time.time()) - 100_000
        self.run: Run | None = None
        (root / "in").mkdir(parents=True, exist_ok=True)

    # the app

    def app(self) -> App:
        return on_files(self.root)[0]

    def start(self, **options: Any) -> Run:
        self.run = self.app().start(self.state, spark=self.spark, **{"tick": 0.1, **self.options, **options})
        return self.run

    def stop(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.stop()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # the producer

    def write(self, count: int = 60) -> list[dict]:
        """The next events, as one file."""
        rows = self.rows[self.sent : self.sent + count]
        assert rows, "the rig has no more events"
        self.sent += len(rows)
        self.send(rows)
        return rows

    def send(self, rows: Sequence[dict], others: Iterable[str] = ()) -> None:
        """Any events, and messages that are none."""
        self.produced.extend(rows)
        others = list(others)
        self.dead += len(others)
        self.put([*others, *(json.dumps({**row, "at": show_instant(row["at"])}) for row in rows)])

    def put(self, lines: list[str]) -> None:
        hidden = self.root / ".writing"
        hidden.write_text("".join(line + "\n" for line in lines))
        os.utime(hidden, (self._begun + self.files,) * 2)  # files of the same moment would come in any order
        hidden.rename(self.root / "in" / f"{self.files:08}.json")
        self.files += 1

    # what has become of it

    def counted(self) -> int:
        assert self.run is not None
        return self.run.store.counters().get("events.events", 0)

    def current(self) -> float:
        """Waits until all that was produced is in the views and at the sinks; how many seconds it took."""
        run = self.run
        assert run is not None
        goal = len(self.produced) + self.dead

        def is_done() -> bool:
            if self.counted() < goal:
                return False
            newest = run.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
            return all(position == newest for position in run.delivery.positions.values())

        return until(is_done, run)

    def commits(self) -> int:
        reader = Reader(self.state)
        last = reader.last()
        reader.close()
        return 0 if last is None else last.number

    def audit(self) -> dict[str, set[int]]:
        """Stops the app, and compares everything."""
        self.stop()
        return Audit(self.state, self.produced, self.dead, poison=self.poison, **self.outputs()).run()

    def outputs(self) -> dict[str, Any]:
        return {"panes": self.root / "panes"}
