"""From the command to an answer: the first commit, a query, and how soon an app is current again after a kill.

    python bench/startup.py [--quick] [--before PATH] [--only start | work | restart | standby]

`--before` is the command `penstock` of another version: both take turns. An app counts visits from JSON files:

- `penstock run` in an empty directory, from the command until a reader of the store sees the first commit; and the time
  of the processor of Python, Java and Spark's Python processes until then, which says more on a busy machine;
- `penstock --help` and `penstock query`, from the command to its end;
- `penstock run --restart`: SIGKILL to the app, until events that came just before are counted;
- `penstock run --standby`, with Spark warm: the same.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.side_by_side import Report
from penstock.runtime.phases import last_start
from penstock.runtime.spark.jars import cache
from penstock.store import Reader, StoreError

QUICK = "--quick" in sys.argv
TURNS = 1 if QUICK else 2 if "--only" in sys.argv else 3
ROWS = 50_000
APP = """
import penstock as ps

app = ps.App("startup")
visits = app.stream("visits", ps.files({folder!r}), schema="page string, ms bigint, at timestamp",
                    event_time="at", watermark=ps.bounded("10 seconds"))
app.view("by_page", visits.group_by("page").window(ps.fixed("1 hour")).agg(n=ps.count(), ms=ps.sum("ms")))
"""


def penstock() -> dict[str, str]:
    """The commands that take turns."""
    ways = {"now": str(Path(sys.executable).parent / "penstock")}
    if "--before" in sys.argv:
        ways["before"] = sys.argv[sys.argv.index("--before") + 1]
    return ways


class Job:
    """An app with its input, and its processes."""

    def __init__(self, root: Path, command: str) -> None:
        self.root, self.command, self.state = root, command, root / "state"
        self.folder, self.files = root / "in", 0
        self.folder.mkdir(parents=True)
        self.app = root / "app.py"
        self.app.write_text(APP.format(folder=str(self.folder)))
        self._processes: list[subprocess.Popen[bytes]] = []

    def put(self) -> int:
        """One more file; how many events there are."""
        at = f"2026-01-01T{self.files:02}:00:00Z"
        lines = [json.dumps({"page": f"/{n % 1000}", "ms": n % 100, "at": at}) for n in range(ROWS)]
        hidden = self.folder / f".{self.files}.json"
        hidden.write_text("\n".join(lines) + "\n")
        hidden.rename(self.folder / f"{self.files}.json")
        self.files += 1
        return self.files * ROWS

    def start(self, *options: str) -> Path:
        """Starts a process of the app; the file with its output."""
        out = self.root / f"out-{len(self._processes)}"
        command = [self.command, "run", str(self.app), "--dir", str(self.state), "--no-serve", *options]
        with out.open("wb") as file:
            self._processes.append(subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True))
        return out

    def kill(self) -> None:
        """Ends the process that writes to the store, as a crash does."""
        os.kill(int((self.state / "lock").read_text()), signal.SIGKILL)

    def wait_for(self, events: int) -> None:
        """Until a reader of the store sees this number of events."""
        until(lambda: self._events() >= events, f"{events} events in {self.state}")

    def _events(self) -> int:
        if not (self.state / "lock").exists():
            return 0
        with suppress(StoreError):
            reader = Reader(self.state)
            try:
                return reader.counters().get("visits.events", 0)
            finally:
                reader.close()
        return 0

    def processor_time(self) -> float:
        """Seconds of the processor that its first process, and all that this one has started, took so far."""
        times, children = dict[int, float](), defaultdict[int, list[int]](list)
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                fields = file.read_text().rpartition(")")[2].split()
                times[int(file.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                children[int(fields[1])].append(int(file.parent.name))
        own = [self._processes[0].pid]
        for process in own:
            own += children[process]
        return sum(times.get(process, 0.0) for process in own)

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextmanager
def job(command: str) -> Iterator[Job]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as scratch:
        made = Job(Path(scratch), command)
        try:
            yield made
        finally:
            made.close()


def until(is_so: Callable[[], object], what: str, seconds: float = 200.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def prepare(command: str) -> None:
    """The first start on a machine records which classes Java loads: waits until these are in an archive."""
    with job(command) as made:
        made.start("--until-caught-up")
        made.wait_for(made.put())
    until(lambda: not [one for one in cache().glob("java-*/classes.lst") if not one.with_suffix(".jsa").exists()], "it")


def first_commit(command: str) -> float:
    """Seconds from the command to the first commit."""
    with job(command) as made:
        events = made.put()
        begun = time.perf_counter()
        made.start()
        made.wait_for(events)
        return time.perf_counter() - begun


def first_commit_work(command: str) -> float:
    """Seconds of the processor from the command to the first commit."""
    with job(command) as made:
        events = made.put()
        made.start()
        made.wait_for(events)
        return made.processor_time()


def parts(command: str) -> list[str]:
    """The parts of a start."""
    with job(command) as made:
        made.start()
        made.wait_for(made.put())
        return [span.text() for span in last_start(made.state)]


def helped(command: str) -> float:
    """Seconds that the list of commands takes."""
    begun = time.perf_counter()
    subprocess.run([command, "--help"], check=True, capture_output=True)
    return time.perf_counter() - begun


def answered(command: str) -> float:
    """Seconds that a query takes."""
    with job(command) as made:
        made.start("--until-caught-up")
        made.wait_for(made.put())
        made.close()
        query = [command, "query", "SELECT count(*) FROM by_page", "--dir", str(made.state)]
        begun = time.perf_counter()
        subprocess.run(query, check=True, capture_output=True)
        return time.perf_counter() - begun


def restarted(command: str) -> float:
    """Seconds from SIGKILL until an app that is started again has counted what came before."""
    with job(command) as made:
        made.start("--restart")
        made.wait_for(made.put())
        events = made.put()
        begun = time.perf_counter()
        made.kill()
        made.wait_for(events)
        return time.perf_counter() - begun


def taken_over(command: str) -> float:
    """Seconds from SIGKILL until a standby has counted what came before."""
    with job(command) as made:
        made.start()
        made.wait_for(made.put())
        out = made.start("--standby")
        until(lambda: "writes to" in out.read_text(), "a standby")
        if command == penstock()["now"]:
            until(lambda: "Spark is warm" in out.read_text(), "a warm standby")
        events = made.put()
        begun = time.perf_counter()
        made.kill()
        made.wait_for(events)
        return time.perf_counter() - begun


#: What is measured, and the name of its part.
MEASURED: dict[str, dict[str, Callable[[str], float]]] = {
    "start": {
        "`run` to the first commit": first_commit,
        "`query`": answered,
        "`--help`": helped,
    },
    "work": {"`run` to the first commit, time of the processor": first_commit_work},
    "restart": {"killed, `--restart`": restarted},
    "standby": {"killed, `--standby`": taken_over},
}


def main() -> None:
    part = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    measured = {what: run for name, some in MEASURED.items() if part in (None, name) for what, run in some.items()}
    ways = penstock()
    prepare(ways["now"])
    taken: dict[str, dict[str, list[float]]] = {what: {way: [] for way in ways} for what in measured}
    for _ in range(TURNS):
        for way, command in ways.items():
            for what, run in measured.items():
                taken[what][way].append(run(command))
                print(what, way, f"{taken[what][way][-1]:.2f}", flush=True)
    report = Report(f"startup-{part}" if part else "startup", "python bench/startup.py")
    head = ["from the command, or the kill", *(f"{way}: median (all)" for way in reversed(ways))]
    lines = [[what, *(shown(times[way]) for way in reversed(ways))] for what, times in taken.items()]
    report.table(f"Seconds until {ROWS:,} events are counted, or the query is answered", head, lines)
    if part in (None, "start"):
        report.table("Parts of a start, some side by side", ["part"], [[text] for text in parts(ways["now"])])
    if not QUICK:
        report.write()


def shown(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} ({', '.join(f'{seconds:.2f}' for seconds in times)})"


if __name__ == "__main__":
    main()
