"""What the freshness figure costs an epoch: the same epochs with and without the arrival of their events, side by side.

    python bench/freshness.py

The engine takes epochs of rows that are there already, without Spark: the share of the figure is largest so. With the
figure a row has the time of its arrival, the task counts ages, and the commit records them. The time is that of the
processor, so that others on the machine do not count.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, middle, ratio
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.sources.base import ARRIVED
from penstock.store import SqliteStore

COLUMNS = ("k", "v", "at")
SIZES = {100: 60, 10_000: 60, 100_000: 40}
WARM = 3


def clock() -> int:
    return time.time_ns() // 1000


def rows(size: int, arrivals: bool) -> pa.Table:
    """Events of a thousand keys, which arrived over half a second, nearly in order."""
    random = np.random.default_rng(1)
    now = clock() // 1000
    frame = pl.DataFrame(
        {
            "k": random.integers(0, 1_000, size),
            "v": random.integers(0, 100, size),
            "at": np.full(size, clock()),
            "__partition": np.zeros(size, np.int32),
            "__offset": np.arange(size),
            ARRIVED: now - np.sort(random.integers(0, 500, size))[::-1] - random.integers(0, 3, size),
        }
    ).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))
    return (frame if arrivals else frame.drop(ARRIVED)).to_arrow()


def epochs(folder: Path, size: int, arrivals: bool) -> Callable[[], None]:
    """An engine with one view, and what gives it one more epoch."""
    events = ps.stream("events", schema="k bigint, v bigint, at timestamp", event_time="at", max_ahead=None)
    store = SqliteStore.open(folder)
    store.lock()
    engine = Engine({"events": events}, store, clock(), lambda name: True)
    engine.registry.keep({"sums": events.group_by("k").agg(n=ps.count(), v=ps.sum("v"))})
    table, number = rows(size, arrivals), iter(range(1_000_000))

    def epoch() -> None:
        place, now = next(number), clock()
        source = EpochOrigin("query", place, str(place), handed_over=now, clock=clock if arrivals else None)
        engine.epoch("events", COLUMNS, table, source, now)

    return epoch


def processor_times(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """The seconds of the processor that each way took in each round, after some rounds to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + WARM):
        for name, way in ways.items():
            begun = time.process_time()
            way()
            if number >= WARM:
                taken[name].append(time.process_time() - begun)
    return taken


def main() -> None:
    report, lines = Report("freshness", "python bench/freshness.py"), []
    for size, rounds in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="penstock-freshness-") as root:
            ways = {name: epochs(Path(root) / name, size, name == "with") for name in ("with", "without")}
            taken = processor_times(ways, rounds)
        times = {name: f"{seconds * 1000:.2f} ms" for name, seconds in middle(taken).items()}
        lines.append([f"{size:,}", times["without"], times["with"], f"{ratio(taken, 'with', 'without'):.3f}"])
    report.table(
        "Processor time of an epoch without Spark, median", ["events", "without the figure", "with it", "ratio"], lines
    )
    report.write()


if __name__ == "__main__":
    main()
