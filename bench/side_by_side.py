"""Measures things side by side: rounds in which each is run in turn, so that a noisy machine disturbs all alike."""

from __future__ import annotations

import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).parent / "results"
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = "RocksDBStateStoreProvider"


def by_hand_state(spark: SparkSession, store: str = ROCKSDB) -> None:
    """The state store of a hand-written job: a changelog and no counting of rows, as one who knows it would set it.

    The rest is Spark's own.
    """
    spark.conf.set(f"{STATE}.providerClass", f"org.apache.spark.sql.execution.streaming.state.{store}")
    spark.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set(f"{STATE}.rocksdb.trackTotalNumberOfRows", "false")


def measure(jobs: Mapping[str, Callable[[], object]], rounds: int = 9) -> dict[str, list[float]]:
    """The seconds that each job took in each round, after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def compare(
    jobs: Mapping[str, Callable[[Path], object]], root: Path, rounds: int
) -> tuple[dict[str, list[float]], object]:
    """The seconds that each job took in each round, each in a new folder; and what they all gave, which is the same."""
    given: list[object] = []

    def run(job: Callable[[Path], object]) -> None:
        work = Path(tempfile.mkdtemp(dir=root))
        given.append(job(work))
        shutil.rmtree(work)

    taken = measure({name: partial(run, job) for name, job in jobs.items()}, rounds)
    if any(one != given[0] for one in given):
        raise SystemExit(f"{', '.join(jobs)} do not agree: {given}")
    return taken, given[0]


def middle(taken: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in taken.items()}


def ratio(taken: Mapping[str, list[float]], of: str, to: str) -> float:
    """The median, over rounds, of how much longer `of` took than `to`."""
    return statistics.median(a / b for a, b in zip(taken[of], taken[to], strict=True))


def chosen(known: Collection[str]) -> list[str]:
    """What stands behind `--only` on the command line; their results go to a file of their own. Without it, nothing."""
    if "--only" not in sys.argv:
        return []
    names = [name for name in sys.argv[sys.argv.index("--only") + 1 :] if not name.startswith("-")]
    if not names or not set(names) <= set(known):
        raise SystemExit(f"--only takes some of {', '.join(known)}, and got {', '.join(names) or 'nothing'}")
    return names


class Report:
    """Tables of text, printed as they come and written to a file at the end."""

    def __init__(self, name: str, command: str) -> None:
        when = datetime.now(UTC).strftime("%Y-%m-%d")
        machine = f"Python {platform.python_version()}, {platform.machine()}"
        self.path = RESULTS / f"{name}.md"
        self.lines = [f"Measured on {when} by `{command}` ({machine}).", ""]

    def table(self, title: str, head: list[str], rows: list[list[str]]) -> None:
        widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]

        def line(cells: list[str]) -> str:
            return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

        text = [
            f"**{title}**",
            "",
            line(head),
            "|" + "|".join("-" * (w + 2) for w in widths) + "|",
            *map(line, rows),
            "",
        ]
        print("\n".join(text), flush=True)
        self.lines += text

    def note(self, text: str) -> None:
        print(text + "\n", flush=True)
        self.lines += [text, ""]

    def write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("\n".join(self.lines))
        print(f"written to {self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path}")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"
