"""Joins side by side with the same job in hand-written PySpark: `python bench/joins.py [events]`.

Calls are joined with a table of subscribers and counted by tier in windows of ten seconds; and clicks with impressions
of the minute before them. Hand-written, each is one Structured Streaming query into SQLite, exactly once by its epoch
number. Both read the same Parquet files, one an epoch; a join of streams may take several commits in one epoch.

Hand-written joins of streams keep their state on disk (RocksDB as Spark sets it up), and then in memory, which is
Spark's default. Penstock's is in segments in both cases. `python bench/joins.py 1000000 streams` runs only these.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent))
from side_by_side import Report, by_hand_state, measure, middle, ratio

import penstock as ps
from penstock.app import App
from penstock.runtime.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = 1_714_564_800_000_000
CALLS = "subscriber bigint, v int, at timestamp"
SHOWN = "ad bigint, place int, seen timestamp"
FILES = 4
#: Where hand-written joins of streams keep their state.
STORES = {"streams, on disk": "RocksDBStateStoreProvider", "streams, in memory": "HDFSBackedStateStoreProvider"}


def write(root: Path, events: int, subscribers: int) -> None:
    """The data of both jobs."""
    chance, each = np.random.default_rng(3), events // FILES
    time = pl.Datetime("us", "UTC")
    (root / "subscribers").mkdir(parents=True)
    tiers = np.array(["free", "silver", "gold"])[chance.integers(0, 3, subscribers)]
    pl.DataFrame({"id": np.arange(subscribers), "tier": tiers}).write_parquet(root / "subscribers" / "all.parquet")
    for name, key, value, at in (("calls", "subscriber", "v", "at"), ("shown", "ad", "place", "seen")):
        (root / name).mkdir()
        for number in range(FILES):
            times = START + (number * each + np.arange(each)) * 600_000_000 // events
            frame = pl.DataFrame(
                {
                    key: chance.integers(0, subscribers, each),
                    value: chance.integers(0, 100, each).astype(np.int32),
                    at: pl.Series(times).cast(time),
                }
            )
            frame.write_parquet(root / name / f"{number}.parquet")


def app_of(root: Path, kind: str) -> App:
    app = App("bench")
    late = ps.bounded("10 seconds")
    calls = app.stream(
        "calls", ps.files(root / "calls", format="parquet", files_per_epoch=1), schema=CALLS, event_time="at",
        watermark=late, max_ahead=None, keep=None if kind in STORES else "none",
    )  # fmt: skip
    if kind in STORES:
        shown = app.stream(
            "shown", ps.files(root / "shown", format="parquet", files_per_epoch=1), schema=SHOWN, event_time="seen",
            watermark=late, max_ahead=None,
        )  # fmt: skip
        both = app.join(
            "both", calls, shown, on="subscriber = ad", within=("-1 minute", "0 seconds"), event_time="at",
            max_ahead=None, keep="none",
        )  # fmt: skip
        app.view("found", both.group_by("place").agg(n=ps.count()))
        return app
    table = app.table(
        "subscribers", ps.files(root / "subscribers", format="parquet"), schema="id bigint, tier string", key="id",
        broadcast=True if kind == "small" else None,
    )  # fmt: skip
    joined = calls.join(table, on="subscriber = id")
    app.view("found", joined.group_by("tier").window(ps.fixed("10 seconds")).agg(n=ps.count(), s=ps.sum("v")))
    return app


def with_penstock(spark: SparkSession, root: Path, kind: str) -> None:
    directory = Path(tempfile.mkdtemp())
    run = app_of(root, kind).start(directory, spark=spark, target=None)
    run.catch_up()
    run.stop()
    shutil.rmtree(directory)


def by_hand(spark: SparkSession, root: Path, kind: str) -> None:
    directory = Path(tempfile.mkdtemp())

    def read(name: str, schema: str) -> DataFrame:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / name))

    calls = read("calls", CALLS).withWatermark("at", "10 seconds")
    if kind in STORES:
        by_hand_state(spark, STORES[kind])
        shown = read("shown", SHOWN).withWatermark("seen", "10 seconds")
        found = calls.join(
            shown, _expr("subscriber = ad AND seen >= at - INTERVAL 1 MINUTE AND seen <= at"), "inner"
        )  # fmt: skip
        query = found.writeStream.foreachBatch(_count(directory, "place"))
    else:
        table = spark.read.parquet(str(root / "subscribers"))
        from pyspark.sql import functions as f

        joined = calls.join(f.broadcast(table) if kind == "small" else table, f.expr("subscriber = id"))
        grouped = joined.groupBy("tier", f.window("at", "10 seconds")).agg(
            f.count("*").alias("n"), f.sum("v").alias("s")
        )
        query = grouped.select("tier", "window.start", "n", "s").writeStream.outputMode("update")
        query = query.foreachBatch(_upsert(directory))
    running = query.option("checkpointLocation", str(directory / "checkpoint")).start()
    running.processAllAvailable()
    running.stop()
    shutil.rmtree(directory)


def _expr(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)


def _upsert(directory: Path) -> Callable[[Any, int], None]:
    """Writes changed groups into SQLite, in one transaction with the number of the epoch."""
    import sqlite3

    def write(rows: Any, epoch: int) -> None:
        with sqlite3.connect(directory / "by_hand.db") as store:
            store.execute("CREATE TABLE IF NOT EXISTS found (tier, start, n, s, PRIMARY KEY (tier, start))")
            store.execute("CREATE TABLE IF NOT EXISTS done (epoch PRIMARY KEY)")
            if store.execute("SELECT 1 FROM done WHERE epoch = ?", [epoch]).fetchone() is None:
                told = [(tier, str(start), n, s) for tier, start, n, s in rows.toPandas().itertuples(index=False)]
                store.executemany("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", told)
                store.execute("INSERT INTO done VALUES (?)", [epoch])

    return write


def _count(directory: Path, key: str) -> Callable[[Any, int], None]:
    """Adds the counts of an epoch in SQLite, in one transaction with its number."""
    import sqlite3

    def write(rows: Any, epoch: int) -> None:
        counted = [tuple(row) for row in rows.groupBy(key).count().collect()]
        with sqlite3.connect(directory / "by_hand.db") as store:
            store.execute("CREATE TABLE IF NOT EXISTS found (key PRIMARY KEY, n)")
            store.execute("CREATE TABLE IF NOT EXISTS done (epoch PRIMARY KEY)")
            if store.execute("SELECT 1 FROM done WHERE epoch = ?", [epoch]).fetchone() is None:
                sql = "INSERT INTO found VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET n = n + excluded.n"
                store.executemany(sql, counted)
                store.execute("INSERT INTO done VALUES (?)", [epoch])

    return write


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    spark = spark_session("bench-joins", master="local[2]", memory="4g")
    report = Report("joins", f"python bench/joins.py {events}")
    rows = []
    kinds = (("small", 100_000), ("large", 5_000_000), *((kind, 100_000) for kind in STORES))
    for kind, subscribers in [one for one in kinds if one[0].startswith(tuple(sys.argv[2:]) or "")]:
        root = Path(tempfile.mkdtemp())
        write(root, events, subscribers)
        jobs = {
            "penstock": lambda root=root, kind=kind: with_penstock(spark, root, kind),
            "by hand": lambda root=root, kind=kind: by_hand(spark, root, kind),
        }
        taken = measure(jobs, rounds=3)
        seconds = middle(taken)
        times = ratio(taken, "by hand", "penstock")
        rows.append(
            [kind, f"{events / seconds['penstock']:,.0f}", f"{events / seconds['by hand']:,.0f}", f"{times:.2f}"]
        )
        shutil.rmtree(root)
    report.table(f"{events:,} events", ["join", "Penstock, events/s", "by hand, events/s", "ratio"], rows)
    report.path.write_text("\n".join(report.lines) + "\n")


if __name__ == "__main__":
    main()
