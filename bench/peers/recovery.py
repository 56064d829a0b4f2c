"""Recovery after a kill: how long a job of the Yahoo benchmark takes until its counts are whole again.

Events come at a steady rate. All processes of the job are killed by SIGKILL shortly before a window ends, and it is
started again at once with the same command, as a supervisor would do. The time runs from the kill until the counts of
that window and of all before it are what was sent. After that the job goes on for a while, and every count is compared.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from bench.peers.contender import Contender
from bench.peers.latency import DISORDER, SENDER, WINDOW, launched, rows_of
from bench.peers.pages import grid, measured_by
from bench.peers.process import JobFailed, end, last_lines
from bench.peers.topics import Answer, Log, environment

#: Events a second, which all hold. Windows before the kill and after it, and the seconds before its end.
RATE, BEFORE, BEHIND, EARLY = 5_000, 4, 6, 0.5
#: Seconds until the events begin at the earliest, and those that a job may take to be whole behind their end.
READY, WAIT = 4, 60

#: The values of each row of the answer as they came, with their times.
History = dict[tuple[str, int], list[tuple[float, int]]]


@dataclass
class Recovery:
    """What was measured of one contender: in each round the seconds from the kill until all counts are whole again.

    `wrong` are the counts of all rounds that were not what was sent at the end: too many or too few.
    """

    contender: str
    title: str
    date: str
    command: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    rate: float = RATE
    seconds: list[float] = field(default_factory=list)
    counts: int = 0
    wrong: int = 0
    problem: str = ""


def measure(recovery: Recovery, contender: Contender, log: Log, table: Path, work: Path, rounds: int) -> None:
    """Kills and starts a job once in each round."""
    for _ in range(rounds):
        try:
            round_of(recovery, contender, log, table, work)
        except JobFailed as error:
            recovery.problem = str(error)
            return
        print(f"{contender.title}: {recovery.seconds[-1]:.1f} s, {recovery.wrong} wrong", file=sys.stderr, flush=True)


def round_of(recovery: Recovery, contender: Contender, log: Log, table: Path, work: Path) -> None:
    source, target = log.new("in"), log.new("answer", partitions=1)
    output = work / "output" / target
    output.mkdir(parents=True)
    variables = environment(contender, log, source, target, DISORDER) | contender.prepare_recovery(work, output)
    answer, history = Answer(log.servers, target), History()
    after = time.time() + READY
    begin = (int(after) // WINDOW + 1) * WINDOW
    stages = json.dumps([(RATE, (BEFORE + BEHIND) * WINDOW)])
    job = launched(contender, variables, table, work, output)
    with TemporaryFile("w+") as sent_file:
        command = [sys.executable, SENDER, log.servers, source, table / "ads.csv", stages, after]
        sending = subprocess.Popen(list(map(str, command)), stdout=sent_file)
        try:
            while time.time() < begin + BEFORE * WINDOW - EARLY:
                note(answer, history, job)
            end(job)
            job, killed = launched(contender, variables, table, work, output), time.time()
            while sending.poll() is None:
                note(answer, history, job)
            if sending.poll() != 0:
                raise JobFailed("the sender failed")
            sent_file.seek(0)
            right = closed(rows_of(json.load(sent_file)["counts"]), begin + (BEFORE + BEHIND - 1) * WINDOW)
            patience = time.monotonic() + WAIT
            while any(answer.rows.get(row) != n for row, n in right.items()) and time.monotonic() < patience:
                note(answer, history, job)
            add(recovery, right, history, killed)
        except JobFailed as error:
            raise JobFailed(f"{error}: {last_lines(output / 'log.txt')}"[:600]) from None
        finally:
            sending.kill()
            end(job)
            answer.close()
            shutil.rmtree(output, ignore_errors=True)


def note(answer: Answer, history: History, job: subprocess.Popen[bytes]) -> None:
    """Takes what has come, with the time."""
    for row in answer.take(0.02):
        history.setdefault(row, []).append((time.time(), answer.rows[row]))
    if job.poll() is not None:
        raise JobFailed(f"the job ended with {job.returncode}")


def closed(rows: Mapping[tuple[str, int], int], last: float) -> dict[tuple[str, int], int]:
    """The counts of all windows but the last one, which may wait for later events."""
    return {row: n for row, n in rows.items() if row[1] / 1000 < last}


def add(recovery: Recovery, right: Mapping[tuple[str, int], int], history: History, killed: float) -> None:
    """Adds a round: the seconds from the kill until all counts of windows that had begun were right for good."""
    moments = {row: right_since(history.get(row, []), n) for row, n in right.items()}
    begun = [math.inf if moment is None else moment for row, moment in moments.items() if row[1] / 1000 < killed]
    recovery.seconds.append(max(begun) - killed)
    recovery.counts += len(right)
    recovery.wrong += sum(moment is None for moment in moments.values())


def right_since(values: list[tuple[float, int]], n: int) -> float | None:
    """When a count became right and stayed so; None if it is not right at the end."""
    moment = None
    for time_of, value in values:
        moment = (time_of if moment is None else moment) if value == n else None
    return moment


def read(folder: Path) -> list[Recovery]:
    """What was measured, in the order of the file names."""
    return [Recovery(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


def section(known: Iterable[Recovery]) -> list[str]:
    """The table of all that were measured."""
    ordered = sorted(known, key=lambda one: (one.contender != "penstock", one.title))
    if not ordered:
        return []
    rows = [[one.title, *cells(one)] for one in ordered]
    return [
        "## Recovery after a kill", "",
        f"The Yahoo benchmark from topic to topic with {RATE:,} events a second. All processes of a job are killed by "
        "SIGKILL shortly before a window ends and started again at once: seconds from the kill until the counts of "
        "this window and of those before it are whole, and how many counts were wrong at the end.", "",
        *grid(["", "whole again after: median, least to most", "counts", "wrong at the end"], rows), "",
        *map(measured_by, ordered),
    ]  # fmt: skip


def cells(recovery: Recovery) -> list[str]:
    if recovery.problem or not recovery.seconds:
        return [recovery.problem or "not measured", "", ""]
    ordered = sorted(recovery.seconds)
    shown = f"{statistics.median(ordered):.1f} s ({ordered[0]:.1f}–{ordered[-1]:.1f})"
    return ["never" if math.isinf(ordered[-1]) else shown, f"{recovery.counts:,}", f"{recovery.wrong:,}"]
