"""Processes of `penstock run` that are killed, paused and taken over, and the events that they read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penstock.store import Reader, StoreError
from tests.faults.audit import SECOND, Audit, made_up
from tests.faults.java import quick_options
from tests.faults.processes import put_file

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
APP = HERE / "apps" / "app.py"
#: So many events a file has.
FILE = 40
SMALL = ("--conf", "spark.driver.memory=512m", "--conf", "spark.executor.memory=512m",
         "--conf", f"spark.executor.extraJavaOptions={quick_options()}")  # fmt: skip


def until(is_so: Callable[[], object], what: str, seconds: float = 300.0) -> None:
    """Waits for something; so long that only what never comes fails."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.02)


class Driver:
    """One process of the app. Its Java ends with it."""

    def __init__(self, scene: Scene, *options: str, app: Path = APP, **environment: str) -> None:
        self.scene, self.out = scene, scene.root / f"out-{len(scene.drivers)}"
        scene.drivers.append(self)
        command = [sys.executable, "-m", "penstock.cli", "run", str(app), "--dir", str(scene.root / "state")]
        said = self.out.open("w")
        self.process = subprocess.Popen(
            [*command, "--port", "0", *SMALL, *options],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=scene.root,
            env={
                **os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PENSTOCK_TEST_ROOT": str(scene.root),
                **environment,
            },
        )  # fmt: skip
        said.close()

    def said(self) -> str:
        return self.out.read_text()

    def says(self, text: str) -> None:
        """Waits until it has said something."""
        until(lambda: text in self.said() or not self.runs, text)
        assert text in self.said(), self.said() + self.scene.log()

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        until(lambda: not self.runs, "the driver's end")
        return self.process.returncode

    def kill(self) -> None:
        if self.runs:
            self.signal(signal.SIGKILL)
            self.process.wait()


class Scene:
    """A directory with events that flow, and the processes that read them."""

    def __init__(self, root: Path, files: int) -> None:
        self.root, self.written, self.drivers = root, 0, list[Driver]()
        self.rows = made_up(FILE * files)
        self._begun = int(time.time())
        (root / "in").mkdir()

    def write(self, files: int) -> None:
        """More events."""
        for _ in range(files):
            self.written += put_file(self.root, self.rows, self.written, self._begun, FILE)

    def events(self) -> int:
        """How many events are committed."""
        try:
            reader = Reader(self.root / "state")
            found = reader.counters().get("events.events", 0)
            reader.close()
        except StoreError:  # the first process has not made it yet
            return 0
        return found

    def commits(self, events: int) -> None:
        """Waits until at least so many events are committed, by a process that runs."""
        until(lambda: self.events() >= events or not any(d.runs for d in self.drivers), f"{events} events")
        assert self.events() >= events, self.drivers[-1].said() + self.log()

    def log(self) -> str:
        log = self.root / "state" / "spark.log"
        return log.read_text()[-5000:] if log.exists() else ""

    def check(self) -> None:
        """Every view equals recomputation, and the files hold each pane once."""
        rows = self.rows[: self.written]
        late = Audit(self.root / "state", rows, panes=self.root / "panes").run()
        assert late["sessions"], "the test has late events"
        tens: dict[tuple[str, int], list[int]] = {}
        for row in {row["id"]: row for row in rows}.values():
            tens.setdefault((row["k"], row["at"] // (10 * SECOND)), []).append(row["v"])
        reader = Reader(self.root / "state")
        found = reader.query("SELECT k, n, s FROM tens").rows()
        reader.close()
        assert sorted(found) == sorted((k, len(values), sum(values)) for (k, _), values in tens.items())

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()
