"""Processes of the app that are killed, and the events that flow to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.model.time import show_instant
from penstock.store import Reader, StoreError
from tests.faults.app import ADD
from tests.faults.audit import Audit, made_up

APP = Path(__file__).parent / "app.py"
ROOT = Path(__file__).parent.parent.parent
#: So many events a file has.
FILE = 60


def put_file(root: Path, rows: list[Any], written: int, begun: int, size: int = FILE) -> int:
    """The next file of events after so many; how many it has. Files of the same moment would come in any order."""
    some = rows[written : written + size]
    hidden = root / ".writing"
    hidden.write_text("".join(json.dumps({**row, "at": show_instant(row["at"])}) + "\n" for row in some))
    os.utime(hidden, (begun + written,) * 2)
    hidden.rename(root / "in" / f"{written:08}.json")
    return len(some)


class Process:
    """One process of the app. Its Java ends with it."""

    def __init__(self, root: Path, java: dict[str, str], app: Path = APP) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [sys.executable, str(app), str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(root / "stderr").open("a"), text=True,
            env={**java, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip

    def go(self, step: str = "") -> None:
        """Reads, once Spark is there."""
        self.wait_for("warm")
        self.say(step)

    def say(self, step: str) -> None:
        """Tells it what to do, or where to die."""
        assert self._process.stdin is not None
        self._process.stdin.write(step + "\n")
        self._process.stdin.flush()

    def wait_for(self, word: str) -> None:
        assert self._process.stdout is not None
        said = any(line.strip() == word for line in self._process.stdout)
        assert said, (self.root / "stderr").read_text()[-3000:]

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def ends(self) -> int:
        self._process.communicate()
        return self._process.returncode


class Scenario:
    """Events that flow, and processes that are killed."""

    def __init__(self, root: Path, java: dict[str, str], kills: int) -> None:
        self.root, self.java, self.written = root, java, 0
        self._begun = int(time.time())
        self.rows = made_up(FILE * 3 * (kills + 1))
        (root / "in").mkdir()
        self.next = Process(root, java)

    def process(self) -> Process:
        """The process that is ready by now; another one gets ready meanwhile."""
        now, self.next = self.next, Process(self.root, self.java)
        return now

    def write(self, files: int) -> None:
        """More events, each file an epoch."""
        for _ in range(files):
            self.written += put_file(self.root, self.rows, self.written, self._begun)

    def commits(self) -> int:
        try:
            reader = Reader(self.root / "state")
            last = reader.last()
            reader.close()
        except StoreError:  # the first process has not made it yet
            return 0
        return 0 if last is None else last.number

    def finish(self) -> dict[str, set[int]]:
        """The last process, which is not killed; and the audit."""
        self.write(2)
        self.next.go(ADD)
        return self.end()

    def end(self) -> dict[str, set[int]]:
        """Lets the process that reads come to its end; and the audit."""
        (self.root / "END").touch()
        self.next.wait_for("done")
        assert self.next.ends() == 0
        return Audit(self.root / "state", self.rows[: self.written], panes=self.root / "panes").run()
