"""Recovery: from the start of a killed app to fresh results, with a million keys of state, against a plain start.

    python bench/recovery.py [--quick]

An app that has counted a million keys from Kafka is killed by SIGKILL while it reads. Then an event comes, and the app
is started again: the time runs from the start of the process until a reader of the store sees that event. A plain start
is the same app in an empty directory that begins at that event: no state, no checkpoint. They take turns.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.side_by_side import Report
from penstock.dev.broker import Cluster
from penstock.store import Reader, StoreError

QUICK = "--quick" in sys.argv
KEYS, TURNS = (50_000, 1) if QUICK else (1_000_000, 4)
TOPIC, PARTITIONS = "visits", 2
RUN = """
import sys
sys.path.insert(0, {root!r})
import penstock as ps

app = ps.App("recovery")
log = ps.kafka({topic!r}, servers={servers!r}, start={start!r})
visits = app.stream("visits", log, schema="page string, ms bigint")
app.view("by_page", visits.group_by("page").agg(n=ps.count(), ms=ps.sum("ms")))
run = app.start({state!r}, master="local[2]")
run.wait()
"""


class Bench:
    """One topic, and apps on it in processes of their own."""

    def __init__(self, root: Path, servers: str) -> None:
        self.root, self.servers = root, servers
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
        self.ends = dict.fromkeys(range(PARTITIONS), 0)

    def put(self, first: int, count: int) -> None:
        """So many events, each of another page."""
        for page in range(first, first + count):
            text = f'{{"page": "/page/{page}", "ms": {page % 1000}}}'
            self._producer.produce(TOPIC, text, partition=page % PARTITIONS)
            self.ends[page % PARTITIONS] += 1
            if page % 10_000 == 0:
                self._producer.flush()
        self._producer.flush()

    def start(self, state: Path, start: object) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parent.parent)
        code = RUN.format(root=root, topic=TOPIC, servers=self.servers, start=start, state=str(state))
        with (self.root / "app.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, start_new_session=True)

    def wait_for(self, app: subprocess.Popen[bytes], state: Path, page: int, seconds: float = 200.0) -> None:
        """Until a reader of the store sees a page counted. It looks again only after a commit: a look costs a scan."""
        reader, end, seen = Reader(state), time.monotonic() + seconds, None
        try:
            while time.monotonic() < end:
                assert app.poll() is None, (self.root / "app.log").read_text()[-3000:]
                with suppress(StoreError):
                    events = reader.counters().get("visits.events")
                    if events != seen:
                        seen = events
                        if reader.query("SELECT 1 FROM by_page WHERE page = ?1", [f"/page/{page}"]).height:
                            return
                time.sleep(0.02)
            raise AssertionError(f"page {page} was not counted within {seconds} s")
        finally:
            reader.close()

    def kill(self, app: subprocess.Popen[bytes]) -> None:
        """Ends it as a crash does. Java, which has a session of its own, notices that its input is closed."""
        with suppress(ProcessLookupError):
            os.killpg(app.pid, signal.SIGKILL)
        app.wait()
        time.sleep(2.0)

    def timed(self, state: Path, start: object, page: int) -> float:
        """Seconds from the start of a process until this page, the newest one, is counted."""
        begun = time.perf_counter()
        app = self.start(state, start)
        try:
            self.wait_for(app, state, page)
            return time.perf_counter() - begun
        finally:
            self.kill(app)

    def fill(self, state: Path) -> None:
        """The state of all keys; killed in the middle of an epoch."""
        self.put(0, KEYS)
        app = self.start(state, "earliest")
        try:
            self.wait_for(app, state, KEYS - 1)
            self.wait_for(app, state, KEYS - 2)
            self.put(KEYS, 10_000)
        finally:
            self.kill(app)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch, Cluster(Path(scratch) / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        root = Path(scratch)
        bench, state = Bench(root, kafka.servers), root / "state"
        bench.fill(state)
        taken: dict[str, list[float]] = {"recovery": [], "plain start": []}
        for turn in range(TURNS):
            page, ends = 2 * KEYS + turn, dict(bench.ends)
            bench.put(page, 1)
            taken["recovery"].append(bench.timed(state, "earliest", page))
            taken["plain start"].append(bench.timed(root / f"plain-{turn}", {TOPIC: ends}, page))
        reader = Reader(state)
        keys = reader.query("SELECT count(*), sum(n) FROM by_page").row(0)
        reader.close()
        expected = KEYS + 10_000 + TURNS
        assert keys == (expected, expected), keys
        report = Report("recovery", "python bench/recovery.py")
        head = ["from the start of the process to fresh results", "median", "all"]
        lines = [
            [what, f"{statistics.median(times):.1f} s", ", ".join(f"{seconds:.1f}" for seconds in times)]
            for what, times in taken.items()
        ]
        report.table(f"After a kill, with {KEYS:,} keys of state", head, lines)
        ratio = statistics.median(a / b for a, b in zip(taken["recovery"], taken["plain start"], strict=True))
        report.note(f"Recovery, of a plain start: {ratio:.2f}. Each of {expected:,} events is counted once.")
        if not QUICK:
            report.write()


if __name__ == "__main__":
    main()
