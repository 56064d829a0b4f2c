"""A surge: a steady rate of events from Kafka, ten times as much for a minute, and the steady rate again.

    python bench/surge.py [--quick]

The app runs in a process of its own with a fixed Java heap, as a user runs it. A look each second tells what is
produced and committed, and what the processes hold in memory: Python with the engine, Java, and Spark's Python workers.
At the end the view must have counted every event.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.side_by_side import Report
from penstock.dev.broker import Cluster
from penstock.store import Reader, StoreError

QUICK = "--quick" in sys.argv
RATE, TIMES = 5_000, 10
#: Seconds: to warm up (a third of it with the surge's rate, so that Java is what it will be), steady, surge, after.
WARM, STEADY, SURGE, AFTER = (20, 10, 15, 20) if QUICK else (60, 30, 60, 45)
TOPIC, PARTITIONS, KEYS = "visits", 4, 20_000
APP = """
import penstock as ps

app = ps.App("surge")
visits = app.stream(
    "visits", ps.kafka("{topic}", servers="{servers}"), schema="page string, ms bigint, at timestamp",
    event_time="at", watermark=ps.bounded("5 seconds"),
)
app.view("by_page", visits.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms")))
app.view("every", visits.group_by().agg(n=ps.count()))
"""
RUN = """
import sys
from pathlib import Path
from penstock.runtime.spark.session import spark_session

sys.path.insert(0, {root!r})
exec(Path({app!r}).read_text())
java = {{"spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch"}}
spark = spark_session("surge", master="local[2]", memory="1g", kafka=True, options=java)
run = app.start({state!r}, spark=spark)
try:
    run.wait()
finally:
    run.stop()
"""


class Producing(threading.Thread):
    """Events at a rate that can be changed, in small portions. `sent` is what the broker has taken."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.rate, self.ending = RATE, threading.Event()
        self.made = self.sent = 0
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})

    def run(self) -> None:
        owed, last = 0.0, time.monotonic()
        while not self.ending.wait(0.05):
            now = time.monotonic()
            owed, last = owed + (now - last) * self.rate, now
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for _ in range(int(owed)):
                text = f'{{"page": "/page/{self.made * 7919 % KEYS}", "ms": {self.made % 1000}, "at": "{at}"}}'
                self._producer.produce(TOPIC, text, partition=self.made % PARTITIONS, on_delivery=self._taken)
                self.made += 1
            owed -= int(owed)
            self._producer.poll(0)
        self._producer.flush()

    def _taken(self, error: object, _: object) -> None:
        assert error is None, error
        self.sent += 1


@dataclass(frozen=True)
class Look:
    """What there is at one moment; memory in MB, by kind of process."""

    phase: str
    lag: int
    rows: int
    limit: int
    seconds: float
    memory: tuple[float, float, float]

    @property
    def total(self) -> float:
        return sum(self.memory)


def memory_of(root: int) -> tuple[float, float, float]:
    """The resident memory of a process, of the Java below it, and of Spark's Python workers, each page counted once."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found = [_resident(root), 0.0, 0.0]
    below = list(children.get(root, ()))
    while below:
        process = below.pop()
        below += children.get(process, ())
        try:
            kind = 1 if "java" in Path(f"/proc/{process}/comm").read_text() else 2
            found[kind] += _resident(process)
        except OSError:
            continue
    return found[0], found[1], found[2]


def _resident(process: int) -> float:
    """In MB: what is shared with other processes, as forked workers do, in parts."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def look(phase: str, producing: Producing, store: Reader, process: int) -> Look | None:
    try:
        sql = "SELECT rows, \"limit\", timings FROM __commits WHERE kind = 'epoch' ORDER BY number DESC LIMIT 1"
        epochs = store.query(sql).rows()
        counted = store.query("SELECT sum(n) FROM every").item() or 0
    except StoreError:
        return None
    if not epochs:
        return None
    rows, limit, timings = epochs[0]
    return Look(
        phase, producing.sent - counted, rows, limit or 0, sum(json.loads(timings).values()), memory_of(process)
    )


def watch(
    phases: Sequence[tuple[str, int, int]], producing: Producing, store: Reader, app: subprocess.Popen[bytes]
) -> list[Look]:
    """One look a second, phase by phase: its name, its rate, its seconds."""
    found = []
    for phase, rate, seconds in phases:
        producing.rate = rate
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(1.0)
            assert app.poll() is None, "the app has ended"
            seen = look(phase, producing, store, app.pid)
            found += [seen] if seen is not None else []
    return found


def tell(report: Report, looks: list[Look]) -> None:
    lines = []
    for phase in dict.fromkeys(one.phase for one in looks):
        mine = [one for one in looks if one.phase == phase]
        python, java, workers = (statistics.median(one.memory[kind] for one in mine) for kind in range(3))
        rows, lags = [one.rows for one in mine], [one.lag for one in mine]
        seconds = statistics.median(one.seconds for one in mine)
        cells = [
            f"{max(lags):,}", f"{lags[-1]:,}", f"{statistics.median(rows):,.0f}", f"{max(rows):,}",
            f"{mine[-1].limit:,}", f"{seconds:.2f} s", f"{python:,.0f} + {java:,.0f} + {workers:,.0f}",
            f"{max(one.total for one in mine):,.0f}",
        ]  # fmt: skip
        lines.append([phase, *cells])
    head = [
        "phase", "lag, most", "lag, at its end", "events an epoch", "most", "limit", "reduce and merge",
        "memory in MB: Python + Java + workers", "most",
    ]  # fmt: skip
    report.table(f"{RATE:,} events a second, {TIMES} times as many for {SURGE} s, and {RATE:,} again", head, lines)
    steady = statistics.median(one.total for one in looks if one.phase == "steady")
    most = max(one.total for one in looks if one.phase in ("surge", "after"))
    report.note(f"Most memory during and after the surge, of the steady median: {most / steady:.2f}.")
    after = [number for number, one in enumerate(one for one in looks if one.phase == "after") if one.lag < 3 * RATE]
    report.note(
        f"Seconds from the surge's end to a lag below that of three steady seconds: {after[0] if after else '–'}."
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, Cluster(Path(root) / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        (Path(root) / "app.py").write_text(APP.format(topic=TOPIC, servers=kafka.servers))
        code = RUN.format(root=str(Path(__file__).parent.parent), app=f"{root}/app.py", state=f"{root}/state")
        with (Path(root) / "app.log").open("wb") as log:
            app = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, start_new_session=True)
        try:
            producing, store = Producing(kafka.servers), Reader(Path(root) / "state")
            producing.start()
            # The process is warm when it has read as fast as it will have to: before that its memory says nothing.
            warm = [("warm", RATE, WARM // 3), ("warm", RATE * TIMES, WARM // 3), ("warm", RATE, WARM // 3)]
            looks = watch(
                [*warm, ("steady", RATE, STEADY), ("surge", RATE * TIMES, SURGE), ("after", RATE, AFTER)],
                producing, store, app,
            )  # fmt: skip
            producing.ending.set()
            producing.join()
            end = time.monotonic() + 60
            while (seen := look("end", producing, store, app.pid)) is None or seen.lag:
                assert time.monotonic() < end, f"events are missing: {seen}"
                time.sleep(0.5)
        except BaseException:
            print((Path(root) / "app.log").read_text()[-3000:])
            raise
        finally:
            with suppress(ProcessLookupError):
                os.killpg(app.pid, signal.SIGTERM)
            app.wait(60)
        report = Report("surge", "python bench/surge.py")
        tell(report, looks)
        report.note(f"Nothing lost: {producing.sent:,} events produced, and as many counted.")
        if not QUICK:
            report.write()


if __name__ == "__main__":
    main()
