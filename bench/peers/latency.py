"""The latency of the Yahoo benchmark: how long after the end of a window its last count is there, at several loads.

The events come at a steady rate, with the times at which they are due. First the rate goes up in steps, to see what a
contender holds on this machine beside the sender and the broker; then it gets 25, 50, 75 and 90 % of that. Every count
is compared with what was sent.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from bench.peers import sender
from bench.peers.contender import Contender
from bench.peers.pages import grid, measured_by
from bench.peers.process import JobFailed, end
from bench.peers.topics import Answer, Log, environment

SENDER = Path(__file__).parent / "sender.py"
JOB = "yahoo_kafka"
SHARES = (0.25, 0.5, 0.75, 0.9)
#: Of the rate at which a full topic is read: the steps in which the rate goes up.
STEPS = (0.2, 0.35, 0.5, 0.65, 0.8)
#: Seconds of a step and of a load, for which the first rate comes before and the last one behind them, and of the wait
#: for the last counts. A stage is whole windows, and the first one of each does not count.
STEP, LOAD, BEFORE, BEHIND, WAIT = 20, 30, 20, 10, 20
#: The same of a window.
WINDOW = sender.WINDOW // 1000
#: A rate is held if 99 of 100 counts are there so many seconds after their window.
HELD = 10.0
#: Seconds for which those wait that need a bound of the disorder: all partitions get their events at the same time.
DISORDER = 1.0


@dataclass(frozen=True)
class Load:
    """What was measured at a rate: seconds from the end of a window to its last count, over campaigns and windows."""

    rate: float
    counts: int
    median: float
    high: float
    longest: float
    late: float

    @property
    def is_held(self) -> bool:
        return self.high <= HELD


@dataclass
class Latency:
    """What was measured of one contender. `read` is the rate at which it reads a full topic."""

    contender: str
    title: str
    date: str
    command: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    read: float
    steps: list[Load] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    problem: str = ""

    @property
    def held(self) -> float:
        """The highest rate of the steps up to which all were held."""
        rate = 0.0
        for step in self.steps:
            if not step.is_held:
                break
            rate = step.rate
        return rate


def measure(latency: Latency, contender: Contender, log: Log, table: Path, work: Path) -> None:
    """Measures a contender: the steps, then the loads."""
    try:
        latency.steps = loads_of(contender, log, table, work, [(latency.read * share, STEP) for share in STEPS])
        if latency.held:
            latency.loads = loads_of(contender, log, table, work, [(latency.held * share, LOAD) for share in SHARES])
        else:
            latency.problem = f"does not hold {latency.steps[0].rate:,.0f} events/s beside the sender and the broker"
    except JobFailed as error:
        latency.problem = str(error)


def loads_of(
    contender: Contender, log: Log, table: Path, work: Path, stages: Sequence[tuple[float, float]]
) -> list[Load]:
    """Runs a contender while events come in stages of a rate and some seconds each."""
    source, target = log.new("in"), log.new("answer", partitions=1)
    every = [(stages[0][0], BEFORE), *stages, (stages[-1][0], BEHIND)]
    answer = Answer(log.servers, target)
    # What it sent does not fit into a pipe that nobody reads meanwhile.
    with started(contender, log, source, target, table, work) as job, TemporaryFile("w+") as output:
        command = [sys.executable, SENDER, log.servers, source, table / "ads.csv", json.dumps(every)]
        process = subprocess.Popen(list(map(str, command)), stdout=output)
        try:
            seen = dict[tuple[str, int], float]()
            patience = time.monotonic() + sum(seconds for _, seconds in every) + 60
            while process.poll() is None and time.monotonic() < patience:
                note(answer, seen, job)
            if process.poll() != 0:
                raise JobFailed("the sender failed")
            output.seek(0)
            sent = json.load(output)
            right = rows_of(sent["counts"])
            patience = time.monotonic() + WAIT
            last = (sent["begin"] / 1000 + sum(seconds for _, seconds in every[:-1])) * 1000
            while any(answer.rows.get(row) != n for row, n in right.items() if row[1] < last):
                if time.monotonic() > patience:
                    break
                note(answer, seen, job)
        finally:
            process.kill()
            answer.close()
    taken = delays(right, answer.rows, seen)
    found, begin = [], sent["begin"] + BEFORE * 1000
    for (rate, seconds), late in zip(stages, sent["late"][1:-1], strict=True):
        windows = windows_of(begin, seconds)
        found.append(load_of(rate, [taken[row] for row in taken if row[1] in windows], late))
        begin += int(seconds * 1000)
        print(f"{contender.title}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def windows_of(begin: int, seconds: float) -> range:
    """The starts of the windows of a stage that count: at its beginning there is still work of the stage before it."""
    return range(begin + WINDOW * 1000, begin + int(seconds * 1000), WINDOW * 1000)


def note(answer: Answer, seen: dict[tuple[str, int], float], job: subprocess.Popen[bytes]) -> None:
    """Takes what has come, with the time."""
    changed = answer.take(0.02)
    now = time.time()
    seen.update(dict.fromkeys(changed, now))
    if job.poll() is not None:
        raise JobFailed(f"the job ended with {job.returncode}")


def rows_of(counts: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, int], int]:
    return {(campaign, int(window)): n for window, some in counts.items() for campaign, n in some.items()}


def delays(
    right: Mapping[tuple[str, int], int], rows: Mapping[tuple[str, int], int], seen: Mapping[tuple[str, int], float]
) -> dict[tuple[str, int], float]:
    """Seconds from the end of each window to its last count; endless where the count is not what was sent."""
    return {
        row: seen[row] - row[1] / 1000 - WINDOW if rows.get(row) == n else math.inf for row, n in sorted(right.items())
    }


def load_of(rate: float, taken: Sequence[float], late: float) -> Load:
    median, high = (float(np.quantile(taken, share, method="higher")) for share in (0.5, 0.99))
    return Load(rate, len(taken), median, high, max(taken), late)


@contextmanager
def started(
    contender: Contender, log: Log, source: str, target: str, table: Path, work: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The contender's job between two topics; it is ended behind it."""
    output = work / "output" / target
    output.mkdir(parents=True)
    job = launched(contender, environment(contender, log, source, target, DISORDER), table, work, output)
    try:
        yield job
    finally:
        end(job)
        shutil.rmtree(output, ignore_errors=True)


def launched(
    contender: Contender, variables: Mapping[str, str], table: Path, work: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Starts the contender's job in a folder, where another one may have been before."""
    cores = os.cpu_count() or 1
    with (output / "log.txt").open("ab") as file:
        return subprocess.Popen(
            contender.arguments(JOB, work, output, cores, endless=True), cwd=output,
            env={
                **os.environ, **contender.environment_of(cores), "PEERS_TABLE": str(table),
                "PEERS_OUTPUT": str(output), **variables,
            },
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0,
        )  # fmt: skip


def read(folder: Path) -> list[Latency]:
    """What was measured, in the order of the file names."""
    known = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        steps, loads = ([Load(**one) for one in fields.pop(name)] for name in ("steps", "loads"))
        known.append(Latency(**fields, steps=steps, loads=loads))
    return known


def section(known: Iterable[Latency]) -> list[str]:
    """The table of all that were measured."""
    ordered = sorted(known, key=lambda one: (one.contender != "penstock", one.title))
    if not ordered:
        return []
    head = ["", "events/s held", *(f"at {share:.0%}: median, 99 %" for share in SHARES)]
    rows = [[one.title, *cells(one)] for one in ordered]
    return [
        "## Yahoo, latency", "",
        "The same from topic to topic while the events come: seconds from the end of a window to its last count, over "
        "all campaigns. The sender and the broker share the machine. A rate is held if 99 of 100 counts are there "
        f"{HELD:g} s after their window; it went up in steps of {STEP} s.", "",
        *grid(head, rows), "",
        *(f"{measured_by(one)}; {lateness(one)}" for one in ordered),
    ]  # fmt: skip


def cells(latency: Latency) -> list[str]:
    if latency.problem:
        return [latency.problem, *[""] * len(SHARES)]
    shown = [f"{load.median:.2f} s, {load.high:.2f} s" if load.is_held else "not held" for load in latency.loads]
    shown += [""] * (len(SHARES) - len(shown))
    return [f"{latency.held / 1000:,.0f} k/s", *shown]


def lateness(latency: Latency) -> str:
    """How late the sender was; a run in which it was later than a tenth of a second is not what it claims to be."""
    late = max((load.late for load in latency.loads), default=0.0)
    return f"the sender was at most {late * 1000:.0f} ms late"
