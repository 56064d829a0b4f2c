"""A processor against the same job hand-written with PySpark's `transformWithState`, on the same files in one run.

    python bench/processors.py [--quick]

The job: for each key the number and the sum of its events, given out when it was quiet for a minute of event time.
Hand-written means: rows by `transformWithState`, RocksDB with a changelog, event-time timers, what comes out written as
Parquet by `foreachBatch`. Penstock reads the same files into a stream with its history, and the processor from there;
what comes out is in the processor's history and in a view. Both warm up first; then they take turns.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, by_hand_state, compare, middle, ratio
from penstock.app import App
from penstock.runtime.spark.session import spark_session

QUICK = "--quick" in sys.argv
FILES, PER_FILE = (3, 20_000) if QUICK else (6, 50_000)
#: Keys an epoch, and how often to measure: what takes only seconds varies more.
KEYS = {PER_FILE // 4: 1 if QUICK else 2, PER_FILE // 100: 1 if QUICK else 8}
START = 1_700_000_000_000_000
SCHEMA = "at timestamp, key bigint, v bigint"
OUTPUT = "key bigint, n bigint, s bigint"


def write(folder: Path, keys: int) -> None:
    """Events in disorder of up to two seconds; a file is half a minute of them, on random keys that end with it.

    A last event, an hour later, brings out the rest.
    """
    chance = np.random.default_rng(0)
    for number in range(FILES + 1):
        count = PER_FILE if number < FILES else 1
        at = START + (np.arange(count) + number * PER_FILE) * 30_000_000 // PER_FILE
        at += 3_600_000_000 if number == FILES else 0
        table = {
            "at": pa.array(at - chance.integers(0, 2_000_000, count), pa.timestamp("us", tz="UTC")),
            "key": chance.integers(0, keys, count) + number * keys,
            "v": chance.integers(0, 1000, count),
        }
        path = folder / f"{number:04}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (number, number))  # files are read in the order of their times


class Quiet(ps.Processor):
    output = OUTPUT
    n = ps.value("bigint", default=0)
    s = ps.value("bigint", default=0)

    def on_event(self, key: int, event: Any, time: Any) -> None:
        self.n += 1
        self.s += event.v
        self.set_timer(time + timedelta(minutes=1), name="quiet")

    def on_timer(self, key: int, timer: ps.Timer) -> Iterator[Any]:
        yield key, self.n, self.s
        self.clear()


class ByHand(StatefulProcessor):
    """The same by hand: one value of three columns, and one timer that moves."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("state", "n bigint, s bigint, timer bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        found = self.state.get()
        n, s, timer = found if found is not None else (0, 0, None)
        due = timer
        for row in rows:
            n += 1
            s += row.v
            due = int(row.at.timestamp() * 1000) + 60_000
        if due != timer:
            if timer is not None:
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(due)
        self.state.update((n, s, due))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        n, s, _ = self.state.get()
        self.state.clear()
        yield Row(key=key[0], n=n, s=s)

    def close(self) -> None:
        return


def by_hand(spark: SparkSession, folder: Path, work: Path) -> int:
    """How many events the rows that came out have counted."""
    by_hand_state(spark)
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    made = (
        events.withWatermark("at", "5 seconds")
        .groupBy("key")
        .transformWithState(ByHand(), OUTPUT, "Append", "EventTime")
    )

    def keep(rows: DataFrame, number: int) -> None:
        rows.write.mode("append").parquet(str(work / "rows"))

    query = made.writeStream.foreachBatch(keep).option("checkpointLocation", str(work / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return int(spark.read.schema(OUTPUT).parquet(str(work / "rows")).selectExpr("coalesce(sum(n), 0)").first()[0])


def by_penstock(spark: SparkSession, folder: Path, work: Path) -> int:
    app = App("bench")
    events = app.stream(
        "events", ps.files(folder, format="parquet", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("5 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    quiet = app.process("quiet", events, Quiet, by="key")
    app.view("total", quiet.group_by().agg(n=ps.sum("n")))
    run = app.start(work / "state", spark=spark, tick=3600.0)
    run.catch_up()
    found = run.store.query("SELECT coalesce(sum(n), 0) FROM total").item()
    run.stop()
    return int(found)


def main() -> None:
    report = Report("processors", "python bench/processors.py")
    spark = spark_session("bench", master="local[2]", memory="4g")
    root, rows = Path(tempfile.mkdtemp()), []
    try:
        for keys, rounds in KEYS.items():
            folder = root / str(keys)
            folder.mkdir()
            write(folder, keys)
            jobs = {"hand": partial(by_hand, spark, folder), "penstock": partial(by_penstock, spark, folder)}
            taken, counted = compare(jobs, root, rounds)
            if counted != FILES * PER_FILE:
                raise SystemExit(f"{keys:,} keys: of {FILES * PER_FILE:,} events were counted {counted}")
            speed = {name: f"{FILES * PER_FILE / seconds / 1000:.0f} k/s" for name, seconds in middle(taken).items()}
            rows.append([f"{keys:,}", speed["hand"], speed["penstock"], f"{ratio(taken, 'hand', 'penstock'):.2f}"])
        title = f"{FILES * PER_FILE:,} events on random keys, {PER_FILE:,} an epoch, timers of event time"
        report.table(title, ["keys an epoch", "hand-written", "Penstock", "Penstock, of hand-written"], rows)
        if not QUICK:
            report.write()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
