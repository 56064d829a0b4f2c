"""What an epoch of a loop costs: it follows the change, and not the graph.

    python bench/loops.py [--quick]

Connected components of a random graph of people, most of whom hang together. Then epochs of some more edges each: half
of them between people who are there, half to new ones. First the loop alone, with its states in a store; beside it the
same components computed from scratch. Then whole epochs of an app on Spark, from the file to the commit of the loop's
rows.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from penstock.app import App
from penstock.model.loops import iteration
from penstock.runtime.derived.loops.machine import PLACE, LoopTally, machine_of, run
from penstock.runtime.spark.session import spark_session
from penstock.store import SqliteStore
from penstock.store.base import Commit
from penstock.store.memory import REMEMBERED

QUICK = "--quick" in sys.argv
GRAPHS = (10_000, 100_000) if QUICK else (10_000, 100_000, 1_000_000)
CHANGES = (1, 100, 10_000)
ROUNDS = 3 if QUICK else 5
SCHEMA = "a bigint, b bigint"


class Stored:
    """A loop whose states lie in a store, without Spark."""

    def __init__(self, folder: Path) -> None:
        self._loop = iteration(ps.stream("edges", schema=SCHEMA), ps.connected_components("a", "b"))
        folder.mkdir()
        self._store = SqliteStore(folder)
        self._store.lock()

    def take(self, edges: pl.DataFrame) -> tuple[float, int, LoopTally]:
        """An epoch: how long it took, how many states it looked at, and what it did."""
        place = {name: pl.lit(0).alias(name) for name in PLACE}
        begun, machine, tally, looked = time.perf_counter(), machine_of(self._loop), LoopTally(), 0

        def fetch(keys: pl.Series) -> pl.DataFrame:
            nonlocal looked
            looked += len(keys)
            asked = keys.alias("key").to_frame().select(pl.lit("state").alias("part"), "key")
            return self._store.memory("graph", asked).select("key", "value")

        inbox, _ = machine.enter(edges.with_columns(place.values()))
        run(machine, inbox, fetch, tally, "graph")
        kept = machine.memory().select(pl.lit("state").alias("part"), "key", "value").cast(REMEMBERED)  # type: ignore[arg-type]
        machine.rows()
        self._store.commit(Commit("tick", 0, memory={"graph": kept}))
        return time.perf_counter() - begun, looked, tally

    def close(self) -> None:
        self._store.close()


def graph(edges: int, seed: int = 0) -> pl.DataFrame:
    """So many edges between half as many people: most of them hang together."""
    chance = np.random.default_rng(seed)
    return pl.DataFrame({"a": chance.integers(0, edges // 2, edges), "b": chance.integers(0, edges // 2, edges)})


def change(edges: int, size: int, seed: int) -> pl.DataFrame:
    """More edges: half of them inside, half to people who are new."""
    chance = np.random.default_rng(seed)
    a, b = chance.integers(0, edges // 2, size), chance.integers(0, edges // 2, size)
    new = np.arange(size) % 2 == 1
    return pl.DataFrame({"a": a, "b": np.where(new, 10**9 + seed * 10**6 + np.arange(size), b)})


def alone(report: Report, root: Path) -> None:
    rows = []
    for edges in GRAPHS:
        stored = Stored(root / f"store{edges}")
        whole, _, _ = stored.take(graph(edges))
        cells = [f"{edges:,}"]
        for size in CHANGES:
            taken = [stored.take(change(edges, size, seed=size + number)) for number in range(ROUNDS)]
            middle = statistics.median(seconds for seconds, _, _ in taken)
            cells.append(f"{middle * 1000:.0f} ms ({max(looked for _, looked, _ in taken):,} states)")
        rows.append([*cells, f"{whole:.2f} s"])
        stored.close()
    head = ["edges of the graph", *(f"{size:,} more" for size in CHANGES), "from scratch"]
    report.table("An epoch of connected components, states in SQLite, without Spark", head, rows)


def on_spark(report: Report, root: Path) -> None:
    spark = spark_session("bench", master="local[2]", memory="2g")
    rows = []
    try:
        for edges in GRAPHS[:2]:
            folder = root / f"in{edges}"
            folder.mkdir()
            app = App("bench")
            stream = app.stream("edges", ps.files(folder, format="parquet"), schema=SCHEMA)
            graphs = app.iterate("graph", stream, ps.connected_components("a", "b"))
            app.view("sizes", graphs.group_by("component").agg(n=ps.count()))
            made = app.start(root / f"state{edges}", spark=spark, tick=3600.0)

            def epoch(frame: pl.DataFrame, name: str, folder: Path = folder, made=made) -> float:  # type: ignore[no-untyped-def]
                frame.write_parquet(root / "writing")
                begun = time.perf_counter()
                (root / "writing").rename(folder / f"{name}.parquet")
                made.catch_up()
                return time.perf_counter() - begun

            whole = epoch(graph(edges), "graph")
            epoch(change(edges, 1, 10), "warm")
            cells = [f"{edges:,}"]
            for size in CHANGES:
                taken = [epoch(change(edges, size, seed=size + n), f"{size}-{n}") for n in range(ROUNDS)]
                cells.append(f"{statistics.median(taken):.2f} s")
            rows.append([*cells, f"{whole:.2f} s"])
            made.stop()
    finally:
        spark.stop()
    head = ["edges of the graph", *(f"{size:,} more" for size in CHANGES), "the graph itself"]
    report.table("From the file to the commit of the loop's rows, on Spark: two epochs", head, rows)


def main() -> None:
    report = Report("loops", "python bench/loops.py")
    root = Path(tempfile.mkdtemp())
    try:
        alone(report, root)
        on_spark(report, root)
        if not QUICK:
            report.write()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
