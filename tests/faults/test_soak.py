"""An app that runs for long: what it holds in memory, in file descriptors and on disk stays within bounds.

`make deep` runs it for an hour; PENSTOCK_SOAK=120 for two minutes. It prints what was measured.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from penstock.model.time import show_instant
from penstock.store import Reader, StoreError
from tests.conftest import need_spark, without

ROOT = Path(__file__).parent.parent.parent
SECONDS = float(os.environ.get("PENSTOCK_SOAK", "3600"))
APP = """
import penstock as ps
app = ps.App("soak")
visits = app.stream(
    "visits", ps.files("in"), schema="page string, user string, at timestamp", event_time="at",
    watermark=ps.bounded("2 seconds"), id="concat(user, at)", id_horizon="30 seconds", keep="1 minute",
)
by_page = visits.group_by("page").window(ps.fixed("5 seconds")).agg(n=ps.count(), users=ps.count_distinct("user"))
app.sink(app.view("by_page", by_page.retain("1 minute")), ps.to_function(lambda panes: None))
"""
#: Up to where a value says nothing (a run of 15 minutes took at most 206 MB in the driver, 545 in Java, 265 in three
#: workers, of which the largest had 125; a store's log grows to 64 MB before it is copied, Spark keeps the logs of a
#: hundred epochs, the outbox the last 100 000 panes), and what it may be after that, by its largest value in the first
#: half of the run: so many times, and so much more.
BOUNDS = {
    "driver MB": (240, 1.15, 40), "JVM MB": (620, 1.15, 60), "workers MB": (300, 1.15, 30),
    "workers": (4, 1, 2), "largest worker MB": (150, 1.15, 20), "descriptors": (450, 1.2, 30),
    "store MB": (150, 1.3, 8), "history files": (250, 1.5, 60), "history MB": (20, 1.5, 8),
    "checkpoint files": (2_500, 1.3, 60), "checkpoint MB": (15, 1.3, 4),
    "outbox panes": (110_000, 1.1, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """What an app takes at one moment, by the names of `BOUNDS`."""

    seconds: float
    values: dict[str, float]


def children(pid: int) -> dict[int, int]:
    """The processes below one, and those below them, each with its parent."""
    above = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            above[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found, new = dict[int, int](), [pid]
    while new:
        new = [child for child, parent in above.items() if parent in new]
        found |= {child: above[child] for child in new}
    return found


def memory(pid: int) -> float:
    """The megabytes that a process has to itself."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    kinds = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    return (kinds["Private_Clean:"] + kinds["Private_Dirty:"]) / 1024


def is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False


def descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def tree(folder: Path) -> tuple[int, float]:
    """Files and megabytes below a folder; what goes meanwhile does not count."""
    count, size = 0, 0
    for above, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(Path(above) / name).st_size
                count += 1
            except OSError:
                continue
    return count, size / 1e6


def sample(pid: int, state: Path, began: float) -> Sample:
    below = children(pid)
    # A process that Java is about to start is still Java, in Java's memory: that is not counted twice.
    is_javas = {one: is_java(one) for one in below}
    java = [one for one, parent in below.items() if is_javas[one] and not is_javas.get(parent)]
    workers = [memory(one) for one in below if not is_javas[one]]
    history, checkpoint = tree(state / "history"), tree(state / "checkpoints")
    store = sum(file.stat().st_size for file in state.glob("store.db*")) / 1e6
    return Sample(
        time.monotonic() - began,
        {
            "driver MB": memory(pid), "JVM MB": sum(map(memory, java)),
            "workers MB": sum(workers), "workers": len(workers), "largest worker MB": max(workers, default=0.0),
            "descriptors": sum(map(descriptors, [pid, *java])), "store MB": store,
            "history files": history[0], "history MB": history[1],
            "checkpoint files": checkpoint[0], "checkpoint MB": checkpoint[1],
            "outbox panes": Reader(state).query("SELECT CAST(sum(last - first + 1) AS BIGINT) FROM __outbox").item(),
        },
    )  # fmt: skip


def produce(folder: Path, stopping: threading.Event) -> None:
    """Twice a second a file of visits appears, and the oldest files go."""
    number = 0
    while not stopping.wait(0.5):
        now = time.time_ns() // 1000
        lines = [
            json.dumps({"page": f"/{n % 20}", "user": f"u{number}-{n}", "at": show_instant(now - n * 1000)})
            for n in range(500)
        ]
        hidden = folder.parent / ".next"
        hidden.write_text("\n".join(lines) + "\n")
        hidden.rename(folder / f"{number:08}.json")
        if number >= 200:
            (folder / f"{number - 200:08}.json").unlink(missing_ok=True)
        number += 1


def show(samples: list[Sample]) -> str:
    """A table of some of them, evenly over the run."""
    names = list(BOUNDS)
    chosen = samples[:: max(1, len(samples) // 20)]
    lines = ["  ".join(["seconds", *names])]
    for one in chosen:
        cells = [f"{one.values[name]:.0f}".rjust(len(name)) for name in names]
        lines.append("  ".join([f"{one.seconds:.0f}".rjust(7), *cells]))
    return "\n".join(lines)


@pytest.mark.deep
def test_an_app_that_runs_for_long_stays_within_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    need_spark()
    if sys.platform != "linux":
        without("the memory of an app is read from /proc")
    (tmp_path / "in").mkdir()
    (tmp_path / "soak.py").write_text(APP)
    command = [sys.executable, "-m", "penstock.cli", "run", "soak.py", "--no-serve", "--grace", "30s"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.DEVNULL
    )
    stopping, samples, state = threading.Event(), list[Sample](), tmp_path / ".penstock"
    producer = threading.Thread(target=produce, args=(tmp_path / "in", stopping), daemon=True)
    producer.start()
    try:
        until_first_commit(process, state)
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            assert process.poll() is None, "the app has ended"
            samples.append(sample(process.pid, state, began))
            stopping.wait(min(10.0, SECONDS / 20))
    finally:
        stopping.set()
        process.send_signal(signal.SIGINT)
        process.wait(120)
        with capsys.disabled():
            print(f"\n{show(samples)}")
    half = len(samples) // 2
    before, after = ([asdict(one)["values"] for one in part] for part in (samples[:half], samples[half:]))
    grown = {}
    for name, (free, times, more) in BOUNDS.items():
        was, now = max(one[name] for one in before), max(one[name] for one in after)
        if now > max(free, was * times + more):
            grown[name] = (was, now)
    assert not grown, f"what grew in the second half: {grown}"


def until_first_commit(process: subprocess.Popen[bytes], state: Path) -> None:
    while True:
        assert process.poll() is None, "the app has not started"
        try:
            if Reader(state).last() is not None:
                return
        except StoreError:
            pass  # it has no store yet
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
