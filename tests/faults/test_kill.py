"""Exactly once: the process is killed at random moments and at each step of the commit protocol, and nothing is lost.

After the last restart every view equals a plain recomputation from the events under the recorded decisions, duplicates
are told apart, and the sink's files hold each pane once. Starting costs most: the next process gets ready while one is
being killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.time import show_instant
from penstock.store import Reader, StoreError
from tests.faults.app import STEPS
from tests.faults.java import fast_java
from tests.faults.recomputed import check, made_up

APP = Path(__file__).parent / "app.py"
ROOT = Path(__file__).parent.parent.parent
KILLS = 200 if os.environ.get("PENSTOCK_DEEP") == "1" else 20
#: So many events a file has.
FILE = 60


class Process:
    """One process of the app. Its Java ends with it."""

    def __init__(self, root: Path, java: dict[str, str]) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [sys.executable, str(APP), str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(root / "stderr").open("a"), text=True,
            env={**java, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip

    def go(self, step: str = "") -> None:
        """Reads, once Spark is there."""
        self.wait_for("warm")
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
            rows = self.rows[self.written : self.written + FILE]
            hidden = self.root / ".writing"
            hidden.write_text("".join(json.dumps({**row, "at": show_instant(row["at"])}) + "\n" for row in rows))
            os.utime(hidden, (self._begun + self.written,) * 2)  # files of the same moment would come in any order
            hidden.rename(self.root / "in" / f"{self.written:08}.json")
            self.written += len(rows)

    def commits(self) -> int:
        try:
            reader = Reader(self.root / "state")
            last = reader.last()
            reader.close()
        except StoreError:  # the first process has not made it yet
            return 0
        return 0 if last is None else last.number

    def finish(self) -> None:
        """The last process, which is not killed; and the check."""
        self.write(2)
        (self.root / "END").touch()
        self.next.go()
        self.next.wait_for("done")
        assert self.next.ends() == 0
        check(self.root, self.rows[: self.written])


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    def train(environment: dict[str, str]) -> None:
        Scenario(tmp_path_factory.mktemp("train"), environment, kills=3).finish()

    return fast_java(train)


@pytest.fixture
def scenario(tmp_path: Path, java: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Scenario]:
    made = Scenario(tmp_path, java, request.param)
    yield made
    made.next.kill()


@pytest.mark.parametrize("scenario", [KILLS], indirect=True)
def test_killed_at_random_moments_nothing_is_lost_and_nothing_counts_twice(scenario: Scenario):
    chance = random.Random(11)
    for _ in range(KILLS):
        scenario.write(chance.randrange(2, 4))
        process = scenario.process()
        process.go()
        process.wait_for("ready")
        goal = scenario.commits() + chance.randrange(3)
        moment = time.monotonic() + chance.random()  # where no commit is waited for, and after the last one
        while process.runs and (scenario.commits() < goal or time.monotonic() < moment):
            if chance.random() < 0.005:
                break
        process.kill()
    scenario.finish()


@pytest.mark.parametrize("scenario", [len(STEPS)], indirect=True)
def test_killed_at_each_step_of_the_commit_protocol(scenario: Scenario):
    for number, step in enumerate(STEPS):
        scenario.write(3)
        process = scenario.process()
        process.go(f"{step}:{1 + number % 2}")
        assert process.ends() == -signal.SIGKILL, (step, (scenario.root / "stderr").read_text()[-3000:])
    scenario.finish()
