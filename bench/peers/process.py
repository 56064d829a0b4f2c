"""One run of a job: its time from the command to its end, and the CPU and memory of all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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


def run(
    command: Sequence[str], environment: Mapping[str, str], output: Path, limit: float,
    is_done: Callable[[], bool] | None = None, others: Collection[int] = (),
) -> Taken:  # fmt: skip
    """Runs a command in an empty folder to its end, or until it is done; its messages go to `log.txt` there.

    `others` are processes that work for it and do not disturb it.
    """
    log = output / "log.txt"
    with log.open("wb") as file:
        begun, busy = time.perf_counter(), busy_ticks() - ticks(others)
        process = subprocess.Popen(
            command, cwd=output, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            process_group=0,
        )  # fmt: skip
        watch = Watch(process.pid)
        watch.start()
        try:
            code = process.wait(limit) if is_done is None else _wait(process, is_done, limit)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"not done after {limit:.0f} s: {last_lines(log)}"[:600]) from None
        finally:
            seconds = time.perf_counter() - begun
            busy = busy_ticks() - ticks(others) - busy
            watch.stop()
            end(process)
    if code:
        raise JobFailed(f"ended with {code}: {last_lines(log)}"[:600])
    return Taken(seconds, watch.cpu, watch.memory, max(0.0, busy / TICKS - watch.cpu) / seconds)


def last_lines(log: Path) -> str:
    """The end of what a job wrote, but for Java's lists of calls."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return " / ".join([line for line in lines if line and not line.startswith(("at ", "... "))][-4:])


def _wait(process: subprocess.Popen[bytes], is_done: Callable[[], bool], limit: float) -> int:
    """Waits until a process that has no end is done; 0 then, else the code with which it ended."""
    begun = time.monotonic()
    while not is_done():
        if (code := process.poll()) is not None:
            return code or int(not any(is_done() for _ in range(40)))
        if time.monotonic() - begun > limit:
            raise subprocess.TimeoutExpired(process.args, limit)
    return 0


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it has started, also in sessions of their own."""
    started = processes(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


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


def ticks(pids: Collection[int]) -> int:
    """The ticks of CPU that these processes and this one have used."""
    used = 0
    for pid in (*pids, os.getpid()):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
    return used


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
