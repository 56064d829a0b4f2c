"""Processes of the app that are killed, and the events that flow to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.model.stream import Stream
from penstock.model.time import show_instant
from penstock.store import Reader, StoreError
from penstock.testing import TestStream
from tests.conftest import need_spark
from tests.faults.audit import Audit, made_up

APP = Path(__file__).parent / "app.py"
ROOT = Path(__file__).parent.parent.parent
#: So many events a file has.
FILE = 60
#: So many seconds without a commit, and an app has done all that it can.
QUIET = 30
#: So many seconds it may take until a last process has done what is waited for; else comparing tells what is lacking.
LONG = 600


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

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end, but no longer than this."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def ends(self) -> int:
        self._process.communicate()
        return self._process.returncode


class Scenario:
    """Events that flow to an app, and processes of it that are killed. So many files there are for each kill."""

    def __init__(self, root: Path, java: dict[str, str], kills: int, app: Path = APP, files: int = 3) -> None:
        self.root, self.java, self.app, self.written = root, java, app, 0
        self._begun = int(time.time())
        self.rows = made_up(FILE * files * (kills + 1))
        (root / "in").mkdir()
        self.next = Process(root, java, app)

    def process(self) -> Process:
        """The process that is ready by now; another one gets ready meanwhile."""
        now, self.next = self.next, Process(self.root, self.java, self.app)
        return now

    def write(self, files: int) -> None:
        """More events, each file an epoch."""
        for _ in range(files):
            self.written += put_file(self.root, self.rows, self.written, self._begun)

    @property
    def seen(self) -> list[Any]:
        """The events that were written."""
        return self.rows[: self.written]

    def script(self, events: Stream) -> TestStream:
        """The same events for the reference, a file an epoch."""
        found = TestStream(events)
        for first in range(0, self.written, FILE):
            found = found.add(*self.seen[first : first + FILE])
        return found

    def commits(self) -> int:
        try:
            reader = Reader(self.root / "state")
            last = reader.last()
            reader.close()
        except StoreError:  # the first process has not made it yet
            return 0
        return 0 if last is None else last.number

    def killed_at(self, step: str, passes: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        """A process that kills itself at a fault point, when it has come there so many times.

        A stream that is made from others may take all that there is in one epoch: for the next one it needs more.
        """
        self.write(3)
        process = self.process()
        process.go(f"{step}:{passes}")
        meanwhile()
        last, since = self.commits(), time.monotonic()
        end = since + LONG
        while not process.ends_within(1.0) and time.monotonic() < end:
            if (now := self.commits()) != last:
                last, since = now, time.monotonic()
            if time.monotonic() > since + QUIET:
                self.write(1)
                since = time.monotonic()
        assert not process.runs, f"the app did not come to '{step}' {passes} times"
        assert process.ends() == -signal.SIGKILL, (step, (self.root / "stderr").read_text()[-3000:])

    def finish(self, step: str = "") -> None:
        """The last process, which is not killed: it ends when it has done everything."""
        self.go_on(step)
        self.end()

    def go_on(self, step: str = "") -> None:
        """The last process begins, with the last events."""
        self.write(2)
        self.next.go(step)

    def end(self, until: Callable[[], object] = lambda: True) -> None:
        """The last process ends, when something has come that is waited for."""
        end = time.monotonic() + LONG
        while not until() and time.monotonic() < end:
            assert not self.next.ends_within(0.2), (self.root / "stderr").read_text()[-3000:]
        (self.root / "END").touch()
        self.next.wait_for("done")
        assert self.next.ends() == 0

    def audit(self) -> dict[str, set[int]]:
        """Compares everything; the late events of each view."""
        return Audit(self.root / "state", self.seen, panes=self.root / "panes").run()


@contextmanager
def scenario_of(app: str, root: Path, kills: int, files: int = 3) -> Iterator[Scenario]:
    """A scenario with one of the apps of this folder."""
    need_spark()
    made = Scenario(root, dict(os.environ), kills, Path(__file__).parent / app, files)
    try:
        yield made
    finally:
        made.next.kill()
