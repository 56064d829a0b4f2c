"""Each fault of the matrix once: how long until all that was produced is in the views again.

    python bench/faults.py [--only TEXT]

The faults are those of `tests/faults` and `tests/cluster`, and each ends with the same audit: every view, sink and
counter equals recomputation. The time counts from the end of the fault, or from the start of a new process (with
Python, Java and Spark), until all events, also those produced meanwhile, are in the views and at the sinks.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.side_by_side import RESULTS, Report
from penstock.dev.broker import Cluster
from penstock.dev.cluster import Cluster as SparkCluster
from penstock.runtime.queries.clock import Steady, wall_clock
from penstock.runtime.spark.session import spark_session
from penstock.store import Reader, connection
from tests.cluster.support import FILE, Driver, Scene
from tests.faults.app import STEPS
from tests.faults.audit import Audit, made_up
from tests.faults.brokers import KafkaRig
from tests.faults.processes import Process, Scenario
from tests.faults.support import Rig, until
from tests.faults.test_checkpoint import power_cut
from tests.faults.test_producer import BROKEN, Poisoned
from tests.faults.test_store import locked

RESTARTS = "the process is gone; start it again, or let a service manager or a standby do so"
WAITS = "a warning, and `Run.faults`; nothing to do"


@dataclass(frozen=True)
class Fault:
    """What happens, what a user sees of it, and a function that does it and tells how long it took to be current."""

    name: str
    seen: str
    happens: Callable[[Path], float]


# the driver


class Killed:
    """One app whose process dies at fault point after fault point."""

    def __init__(self) -> None:
        self.scene: Scenario | None = None

    def at(self, step: str) -> Callable[[Path], float]:
        def happens(root: Path) -> float:
            scene = self.scene = self.scene or self._started()
            scene.next.say(f"{step}:1")  # before there is something to do: a quick app would be done with it
            scene.write(4)
            assert scene.next.ends() == -signal.SIGKILL, (scene.root / "stderr").read_text()[-3000:]
            begun = time.monotonic()
            scene.next = Process(scene.root, dict(os.environ))
            scene.next.go()
            scene.next.wait_for("ready")
            self._wait()
            taken = time.monotonic() - begun
            audited(Audit(scene.root / "state", scene.rows[: scene.written], panes=scene.root / "panes"))
            return taken

        return happens

    def _started(self) -> Scenario:
        scene = self.scene = Scenario(Path(tempfile.mkdtemp(prefix="penstock-killed-")), dict(os.environ), len(STEPS))
        scene.rows = made_up(400 * (len(STEPS) + 1))
        scene.write(1)
        scene.next.go()
        scene.next.wait_for("ready")
        self._wait()
        return scene

    def _wait(self) -> None:
        scene = self.scene
        assert scene is not None
        until(lambda: is_current(scene.root / "state", scene.written))

    def close(self) -> None:
        if self.scene is not None:
            self.scene.next.kill()
            shutil.rmtree(self.scene.root, ignore_errors=True)


def audited(audit: Audit) -> None:
    """Audits an app that runs: time goes on, and its last panes may be on their way to the sink."""
    for attempt in range(20):
        try:
            audit.run()
            return
        except AssertionError:
            if attempt == 19:
                raise
            time.sleep(0.5)


KILLED = Killed()
AnyRig = TypeVar("AnyRig", Rig, KafkaRig)


def is_current(state: Path, events: int) -> bool:
    reader = Reader(state)
    try:
        (newest,) = reader.query("SELECT coalesce(max(last), 0) FROM __outbox WHERE view = 'sessions'").row(0)
        (delivered,) = reader.query("SELECT coalesce(max(position), 0) FROM __sinks").row(0)
        return reader.counters().get("events.events", 0) >= events and delivered >= newest
    finally:
        reader.close()


# brokers


def on_kafka(brokers: int, happens: Callable[[KafkaRig], float]) -> Callable[[Path], float]:
    def on_own(root: Path) -> float:
        with (
            Cluster(root / "kafka", brokers=brokers) as cluster,
            KafkaRig(spark(), root, cluster, copies=brokers, settings={}) as rig,
        ):
            return _measured(rig, happens)

    return on_own


def _measured(rig: AnyRig, happens: Callable[[AnyRig], float]) -> float:
    """A fault of an app that is current, with the audit after it."""
    rig.start()
    rig.write()
    rig.current()
    taken = happens(rig)
    rig.audit()
    return taken


def broker_killed(position: str) -> Callable[[KafkaRig], float]:
    def happens(rig: KafkaRig) -> float:
        done = getattr(rig, position)(rig.cluster.brokers[0].kill)
        rig.write()
        until(lambda: done, rig.run)
        rig.write()
        rig.cluster.start()
        return rig.current()

    return happens


def broker_hangs(rig: KafkaRig) -> float:
    done = rig.in_the_next_transaction(rig.cluster.brokers[0].pause)
    rig.write()
    until(lambda: done, rig.run)
    rig.write()
    time.sleep(20)
    rig.cluster.brokers[0].resume()
    return rig.current()


def leader_stops(rig: KafkaRig) -> float:
    rig.leader().kill()
    rig.write()
    return rig.current()


# the store and the checkpoint


def with_rig(happens: Callable[[Rig], float]) -> Callable[[Path], float]:
    def on_own(root: Path) -> float:
        with Rig(spark(), root) as rig:
            return _measured(rig, happens)

    return on_own


def store_locked(rig: Rig) -> float:
    run = rig.run
    assert run is not None
    with locked(run.store.path):
        rig.write()
        until(lambda: run.faults, run)
    return rig.current()


def store_full(rig: Rig) -> float:
    run = rig.run
    assert run is not None
    assert run.store._writer is not None
    before, pages = connection._WRITING, run.store.query("SELECT page_count FROM pragma_page_count()").item()
    limit = f"PRAGMA max_page_count = {pages + 2}"
    connection._WRITING = (*before, limit)  # type: ignore[misc]
    run.store._writer.run(limit)
    try:
        for _ in range(4):
            rig.write(200)
        until(lambda: run.faults, run)
    finally:
        connection._WRITING = before  # type: ignore[misc]
    return rig.current()


def directory_gone(rig: Rig) -> float:
    away = rig.root / "away"
    rig.state.rename(away)
    rig.write()
    with suppress(Exception):
        until(lambda: False, rig.run)
    rig.stop()
    assert not rig.state.exists()
    away.rename(rig.state)
    return again(rig)


def checkpoint_torn(rig: Rig) -> float:
    rig.write()
    rig.write()
    rig.current()
    rig.stop()
    power_cut(rig.state / "checkpoints" / "events")
    rig.write()
    return again(rig)


def again(rig: Rig) -> float:
    begun = time.monotonic()
    rig.start()
    rig.current()
    return time.monotonic() - begun


# the producer and the clock


def replayed(rig: Rig) -> float:
    first = list(rig.produced)
    rig.send(first, BROKEN)
    rig.send(list(reversed(first)))
    return rig.current()


def poison(root: Path) -> float:
    with Poisoned(spark(), root) as rig:
        rig.start()
        rig.send(rig.rows[30:60])
        rig.current()
        rig.send(rig.rows[:30])
        rig.poison = 1
        taken = rig.current()
        rig.audit()
    return taken


def clock_jumps(rig: Rig) -> float:
    shift = [0]
    rig.stop()
    rig.start(clock=Steady(lambda: wall_clock() + shift[0]))
    for seconds in (86_400, -86_400):
        shift[0] += seconds * 1_000_000
        rig.write()
        taken = rig.current()
    return taken


# clusters and standbys


def taken_over(number: int) -> Callable[[Path], float]:
    def happens(root: Path) -> float:
        scene = Scene(root, 20)
        try:
            scene.write(3)
            first = Driver(scene, "--master", "local[2]")
            scene.commits(FILE)
            second = Driver(scene, "--master", "local[2]", "--standby", "--takeover-after", "3s")
            second.says("writes to")
            scene.write(3)
            first.signal(number)
            begun = time.monotonic()
            scene.commits(scene.written)
            taken = time.monotonic() - begun
            if number == signal.SIGSTOP:
                first.signal(signal.SIGCONT)
                assert first.ends() == 1
            scene.write(1)
            scene.commits(scene.written)
            second.signal(signal.SIGTERM)
            assert second.ends() == 0, second.said()
            scene.check()
            return taken
        finally:
            scene.close()

    return happens


def of_a_cluster(kill: Callable[[SparkCluster], None]) -> Callable[[Path], float]:
    def happens(root: Path) -> float:
        scene = Scene(root, 20)
        with SparkCluster(root / "cluster", workers=2) as cluster:
            try:
                scene.write(3)
                driver = Driver(scene, "--master", cluster.master)
                scene.commits(scene.written)
                until(lambda: cluster.workers[0].executors())
                kill(cluster)
                begun = time.monotonic()
                scene.write(3)
                scene.commits(scene.written)
                taken = time.monotonic() - begun
                driver.signal(signal.SIGTERM)
                assert driver.ends() == 0, driver.said()
                scene.check()
                return taken
            finally:
                scene.close()

    return happens


def executor_killed(cluster: SparkCluster) -> None:
    os.kill(cluster.workers[0].executors()[0], signal.SIGKILL)


def worker_killed(cluster: SparkCluster) -> None:
    cluster.workers[0].kill()


FAULTS = (
    *(Fault(f"driver killed {step}", RESTARTS, KILLED.at(step)) for step in STEPS),
    Fault(
        "driver killed, a standby waits", "the standby says that it has taken over", taken_over(signal.SIGKILL)
    ),
    Fault(
        "driver hangs, a standby takes over after 3 s, the driver wakes up again",
        "the standby has taken over; the old one ends: another process has taken over",
        taken_over(signal.SIGSTOP),
    ),
    Fault("executor killed", "Spark's log; nothing to do", of_a_cluster(executor_killed)),
    Fault("worker killed with its executor", "Spark's log; nothing to do", of_a_cluster(worker_killed)),
    Fault("broker killed in an epoch, and restarted", WAITS, on_kafka(1, broker_killed("at_the_next_epoch"))),
    Fault(
        "broker killed in a sink's transaction, and restarted", WAITS,
        on_kafka(1, broker_killed("in_the_next_transaction")),
    ),
    Fault("broker hangs for 20 s (SIGSTOP)", WAITS, on_kafka(1, broker_hangs)),
    Fault("one of two brokers killed, the leader of a partition", "Kafka elects another leader; nothing to do",
          on_kafka(2, leader_stops)),
    Fault("store locked by another program", WAITS, with_rig(store_locked)),
    Fault("store full (`max_page_count`), and allowed more", WAITS, with_rig(store_full)),
    Fault(
        "store's directory moved away, and back", "the app ends: the store is gone; start it again",
        with_rig(directory_gone),
    ),
    Fault("checkpoint torn: newest files missing or empty", "a warning: what was mended", with_rig(checkpoint_torn)),
    Fault("poison: user code raises on an event", "a dead letter with the error", poison),
    Fault(
        "all sent again, in another order, with broken messages",
        "duplicates and dead letters are counted", with_rig(replayed),
    ),
    Fault("clock jumps a day ahead, and back", "a warning", with_rig(clock_jumps)),
)  # fmt: skip


_SPARK: list[Any] = []


def spark() -> Any:
    """One session for all faults that do not end it."""
    if not _SPARK:
        _SPARK.append(spark_session("faults", master="local[2]", kafka=True))
    return _SPARK[0]


def quote(report: Report) -> None:
    """Puts the table into the document that tells of it."""
    page = Path(__file__).parent.parent / "docs" / "guarantees.md"
    before, rest = page.read_text(encoding="utf-8").split("## The faults\n")
    _, after = rest.split("\n## How to reproduce\n")
    table = "\n".join(report.lines)
    page.write_text(f"{before}## The faults\n\n{table}\n## How to reproduce\n{after}", encoding="utf-8")


HEAD = ["fault", "what the user sees", "lost", "repeated", "current again after"]
NOT_YET = "not measured yet"


def known() -> dict[str, str]:
    """What was measured before, by fault."""
    path = RESULTS / "faults.md"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return {row[0]: row[-1] for row in cells if row != HEAD}


def write(taken: Mapping[str, str]) -> None:
    """The whole table, into the results and into the document."""
    report = Report("faults", "python bench/faults.py")
    rows = [[fault.name, fault.seen, "nothing", "nothing", taken.get(fault.name, NOT_YET)] for fault in FAULTS]
    with redirect_stdout(StringIO()):
        report.table("Faults", HEAD, rows)
        report.write()
    quote(report)


def main() -> None:
    """Each fault is written down when it is measured; `--only` leaves the others as they were."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    taken = known()
    for fault in FAULTS:
        if only not in fault.name:
            continue
        root = Path(tempfile.mkdtemp(prefix="penstock-fault-"))
        seconds = fault.happens(root)  # with an audit at its end: else this raises
        taken[fault.name] = f"{seconds:.1f} s"
        print(f"{fault.name}: current again after {seconds:.1f} s, audited", flush=True)
        write(taken)
        shutil.rmtree(root, ignore_errors=True)
    write(taken)
    KILLED.close()
    for session in _SPARK:
        session.stop()


if __name__ == "__main__":
    main()
