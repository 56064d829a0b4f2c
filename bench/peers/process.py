"""One run of a job: its time from the command to its end, and the CPU and memory of all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class JobFailed(Exception):
    """A job ended with an error or not in time. The message has the end of what it wrote."""


@dataclass(frozen=True)
class Taken:
    """What a run took. `memory` is the most that its processes held together, in bytes; shared pages count once.

    `beside` are the cores that other programs used meanwhile, on average.
    """

    seconds: float
    cpu: float
    memory: int
    beside: float


def run(command: Sequence[str], environment: Mapping[str, str], output: Path, limit: float) -> Taken:
    """Runs a command to its end, in an empty folder; its messages go to `log.txt` there."""
    log = output / "log.txt"
    with log.open("wb") as file:
        begun, busy = time.perf_counter(), busy_ticks()
        process = subprocess.Popen(
            command, cwd=output, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            process_group=0,
        )  # fmt: skip
        watch = Watch(process.pid)
        watch.start()
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"not done after {limit:.0f} s") from None
        finally:
            seconds = time.perf_counter() - begun
            watch.stop()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise JobFailed(f"ended with {code}: {' / '.join(lines[-4:])}"[:600])
    beside = max(0.0, (busy_ticks() - busy) / TICKS - watch.cpu) / seconds
    return Taken(seconds, watch.cpu, watch.memory, beside)


class Watch(threading.Thread):
    """Looks at a process and all that it has started, four times a second."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.memory = 0
        self._root, self._ended, self._used = root, threading.Event(), dict[int, int]()

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all processes that were seen."""
        return sum(self._used.values()) / TICKS

    def run(self) -> None:
        looks = 0
        while not self._ended.wait(0.25):
            tree = processes(self._root)
            self._used |= tree
            looks += 1
            if looks % 4 == 2:
                self.memory = max(self.memory, sum(map(held, tree)))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def busy_ticks() -> int:
    """The ticks that all cores were busy since the machine started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, *_ = fields
    return user + nice + system + interrupts + soft


def processes(root: int) -> dict[int, int]:
    """The ticks of CPU that a process and its descendants have used."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                parents[int(entry)], used[int(entry)] = int(fields[1]), int(fields[11]) + int(fields[12])
    tree = {root} & used.keys()
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= children
        grown = bool(children)
    return {pid: used[pid] for pid in tree}


def held(pid: int) -> int:
    """The bytes of memory of a process; pages that several share count in parts."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
