"""The engine against hand-written Structured Streaming and a one-shot Spark batch, on the same files in one run.

    python bench/engine.py [--quick] [--only jobs views keys parts]

Hand-written means: update mode, RocksDB state, committed to the same SQLite by an upsert. Both warm up first; then they
take turns. The batch aggregation is the limit that Spark itself sets. Further tables: many views, many keys, and where
an epoch's time goes.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, chosen
from penstock.app import App
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session
from penstock.sources import Source

QUICK = "--quick" in sys.argv
FILES, PER_FILE = (4, 100_000) if QUICK else (10, 250_000)
START = 1_700_000_000_000_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEYS = "at timestamp, key bigint, v bigint"
ADS = "user_id string, page_id string, ad_id string, ad_type string, event_type string, at timestamp, ip string"


def write_keys(folder: Path) -> None:
    """Counts and sums over 100 k skewed keys, in disorder of up to two seconds."""
    chance = np.random.default_rng(0)
    for number in range(FILES):
        at = START + (np.arange(PER_FILE) + number * PER_FILE) * 10 + chance.integers(-2_000_000, 0, PER_FILE)
        key = chance.zipf(1.3, PER_FILE) % 100_000
        table = {"at": pa.array(at, pa.timestamp("us", tz="UTC")), "key": key, "v": chance.integers(0, 1000, PER_FILE)}
        pq.write_table(pa.table(table), folder / f"{number:04}.parquet")


def write_ads(folder: Path, kind: str) -> None:
    """Yahoo's events: a third are views, of 1000 ads in 100 campaigns (the campaign is the ad's prefix)."""
    chance = np.random.default_rng(1)
    for number in range(FILES):
        ads = chance.integers(0, 1000, PER_FILE)
        at = START + (np.arange(PER_FILE) + number * PER_FILE) * 100
        columns = {
            "user_id": [f"user-{n}" for n in chance.integers(0, 100, PER_FILE)],
            "page_id": [f"page-{n}" for n in chance.integers(0, 100, PER_FILE)],
            "ad_id": [f"c{n // 10:02}-{n % 10}" for n in ads],
            "ad_type": np.array(["banner", "modal", "mail"])[chance.integers(0, 3, PER_FILE)],
            "event_type": np.array(["view", "click", "purchase"])[chance.integers(0, 3, PER_FILE)],
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
            "ip": ["1.2.3.4"] * PER_FILE,
        }
        table = pa.table(columns)
        if kind == "parquet":
            pq.write_table(table, folder / f"{number:04}.parquet")
        else:
            with (folder / f"{number:04}.json").open("w") as file:
                for row in table.to_pylist():
                    file.write(json.dumps({**row, "at": row["at"].isoformat()}) + "\n")


class Job:
    """One aggregation, written three ways."""

    def __init__(self, kind: str, schema: str, key: str, where: str | None, total: str | None) -> None:
        self.kind, self.schema, self.key, self.where, self.total = kind, schema, key, where, total

    def native(self, events: DataFrame) -> DataFrame:
        rows = events if self.where is None else events.where(self.where)
        sums = [F.count("*").alias("n"), *([F.sum(self.total).alias("s")] if self.total else [])]
        window = F.window("at", "10 seconds").alias("w")
        return rows.withWatermark("at", "5 seconds").groupBy(F.expr(self.key).alias("key"), window).agg(*sums)

    def app(self, folder: Path, per_epoch: int, keep: str = "none") -> App:
        return self.app_on(ps.files(folder, format=self.kind, files_per_epoch=per_epoch), keep)

    def app_on(self, log: Source, keep: str = "none") -> App:
        """Without the history, as hand-written code keeps nothing; or with it."""
        app = App("bench")
        stream = app.stream(
            "events",
            log,
            schema=self.schema,
            event_time="at",
            watermark=ps.bounded("5 seconds", idle=None),
            max_ahead=None,
            keep=keep,
        )
        flow = stream if self.where is None else stream.where(self.where)
        sums = {"n": ps.count(), **({"s": ps.sum(self.total)} if self.total else {})}
        app.view("result", flow.group_by(key=self.key).window(ps.fixed("10 seconds")).agg(**sums))
        return app


def run_native(spark: SparkSession, job: Job, folder: Path, per_epoch: int) -> tuple[float, int]:
    reader = spark.readStream.schema(job.schema).option("maxFilesPerTrigger", per_epoch)
    return native_into_sqlite(job, reader.format(job.kind).load(str(folder)))


def native_into_sqlite(job: Job, events: DataFrame) -> tuple[float, int]:
    """The hand-written query on a stream: seconds, and how many events its table has counted."""
    with tempfile.TemporaryDirectory() as work:
        store = adbc.connect(f"{work}/store.db", autocommit=True)
        columns = "w integer, key, n integer, s integer"
        with store.cursor() as cursor:
            cursor.execute("pragma journal_mode=wal")
            cursor.fetchall()
            cursor.execute("pragma synchronous=full")
            cursor.execute(f"create table v({columns}, primary key(w, key)) without rowid")
        store.adbc_connection.set_autocommit(False)

        def upsert(rows: DataFrame, number: int) -> None:
            s = F.col("s") if job.total else F.lit(0)
            found = rows.select(F.unix_timestamp("w.start").alias("w"), "key", "n", s.alias("s")).toArrow()
            if len(found):
                with store.cursor() as cursor:
                    cursor.adbc_ingest("delta", found, mode="replace", temporary=True)
                    cursor.execute("insert or replace into v select w, key, n, s from delta")
                store.commit()

        begun = time.perf_counter()
        query = job.native(events).writeStream.outputMode("update").foreachBatch(upsert)
        query = query.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        with store.cursor() as cursor:
            cursor.execute("select sum(n) from v")
            counted = cursor.fetchall()[0][0]
        store.close()
        return seconds, counted


@dataclass
class Epochs:
    """What the epochs of a run took, in seconds: as a whole, and in parts."""

    whole: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    def take(self, run: Run) -> None:
        """Reads what Spark tells of a run's only query, and what the commits remember."""
        told = {p["batchId"]: p["durationMs"] for p in run.progress("events") if p["durationMs"].get("addBatch")}
        commits = run.store.query("SELECT epoch, timings FROM __commits WHERE kind = 'epoch' ORDER BY epoch")
        for epoch, timings in commits.iter_rows():
            if epoch in told:
                whole, ours = told[epoch]["triggerExecution"] / 1000, told[epoch]["addBatch"] / 1000
                noted = json.loads(timings)
                self.whole.append(whole)
                self.parts.append(
                    {
                        "Spark's own: offsets, plan, log": whole - ours,
                        "tasks: read, parse, reduce": noted["reduce"],
                        "merge and triggers": noted["merge"],
                        "write: state, panes, progress": ours - noted["reduce"] - noted["merge"],
                    }
                )


def run_engine(spark: SparkSession, make: Callable[[], App], epochs: Epochs | None = None) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as work:
        begun = time.perf_counter()
        run = make().start(Path(work) / "state", spark=spark, tick=3600.0)
        run.catch_up()
        seconds = time.perf_counter() - begun
        view = min(run.views)
        counted = run.query(f"SELECT sum(n) FROM {view}").item()
        if epochs is not None:
            epochs.take(run)
        run.stop()
        return seconds, counted


def run_batch(spark: SparkSession, job: Job, folder: Path) -> float:
    begun = time.perf_counter()
    job.native(spark.read.schema(job.schema).format(job.kind).load(str(folder))).write.format("noop").mode(
        "overwrite"
    ).save()
    return time.perf_counter() - begun


def side_by_side(report: Report, spark: SparkSession, root: Path) -> None:
    jobs = {
        "100 k skewed keys, Parquet": (Job("parquet", KEYS, "key", None, "v"), root / "keys"),
        "Yahoo, Parquet": (
            Job("parquet", ADS, "substr(ad_id, 1, 3)", "event_type = 'view'", None),
            root / "ads-parquet",
        ),
        "Yahoo, JSON": (Job("json", ADS, "substr(ad_id, 1, 3)", "event_type = 'view'", None), root / "ads-json"),
    }
    lines = []
    events = FILES * PER_FILE
    for name, (job, folder) in jobs.items():
        for per_epoch in (1, 5) if name.startswith("100") else (1,):
            rates: dict[str, list[float]] = {"native": [], "engine": [], "kept": [], "batch": []}
            for turn in range(2 if QUICK else 4):
                native, counted = run_native(spark, job, folder, per_epoch)
                engine, same = run_engine(spark, lambda j=job, f=folder, p=per_epoch: j.app(f, p))
                kept, again = run_engine(spark, lambda j=job, f=folder, p=per_epoch: j.app(f, p, "all"))
                batch = run_batch(spark, job, folder)
                assert counted == same == again, (counted, same, again)
                if turn:  # the first one warms up
                    for way, seconds in (("native", native), ("engine", engine), ("kept", kept), ("batch", batch)):
                        rates[way].append(events / seconds)
            best = {way: max(found) for way, found in rates.items()}
            ratio = statistics.median(e / n for e, n in zip(rates["engine"], rates["native"], strict=True))
            price = statistics.median(k / e for k, e in zip(rates["kept"], rates["engine"], strict=True))
            cells = [f"{best[way] / 1000:,.0f} k/s" for way in ("native", "engine", "kept", "batch")]
            lines.append([name, f"{per_epoch * PER_FILE:,}", *cells, f"{ratio:.2f}", f"{price:.2f}"])
    head = ["job", "events an epoch", "hand-written", "Penstock", "with the history", "one-shot batch"]
    head += ["Penstock, of hand-written", "with the history, of without"]
    report.table(f"{events:,} events from files into SQLite", head, lines)


def many_views(report: Report, spark: SparkSession, root: Path) -> None:
    """Keys, filters and windows differ from view to view."""
    lines = []
    first = 0.0
    for count in (1, 10, 100, 1000):
        epochs = Epochs()

        def make(count: int = count) -> App:
            app = App("bench")
            stream = app.stream(
                "events", ps.files(root / "ads-parquet", format="parquet", files_per_epoch=1), schema=ADS,
                event_time="at", watermark=ps.bounded("5 seconds", idle=None), max_ahead=None, keep="none",
            )  # fmt: skip
            keys = ["ad_type", "event_type", "ad_id", "page_id", "user_id"]
            for number in range(count):
                condition = [None, "event_type = 'view'", "ad_type = 'mail'", "ad_type = 'modal'"][number // 5 % 4]
                flow = stream if condition is None else stream.where(condition)
                seconds = 10 * (number // 20 + 1)
                grouped = flow.group_by(keys[number % 5]).window(ps.fixed(f"{seconds} seconds"))
                app.view(f"v{number:03}", grouped.agg(n=ps.count()))
            return app

        run_engine(spark, make, epochs)
        middle = statistics.median(epochs.whole[2:])
        first = first or middle
        lines.append([f"{count:,}", f"{middle:.2f} s", f"{middle / first:.1f}×"])
    report.table(f"Different views on one stream, whole epochs of {PER_FILE:,}", ["views", "an epoch", "of one"], lines)


def many_keys(report: Report, spark: SparkSession, root: Path) -> None:
    """First every key comes once; then epochs of events on random keys are measured."""
    lines = []
    for count in (1_000, 100_000) if QUICK else (1_000, 100_000, 1_000_000, 10_000_000):
        folder = root / f"keys-{count}"
        folder.mkdir()
        fills = write_filled(folder, count)
        cells = []
        for window in (ps.fixed("1 hour"), ps.global_window()):

            def make(window: object = window, folder: Path = folder) -> App:
                app = App("bench")
                stream = app.stream(
                    "events", ps.files(folder, format="parquet", files_per_epoch=1), schema=KEYS, event_time="at",
                    watermark=ps.bounded("5 seconds", idle=None), max_ahead=None, keep="none",
                )  # fmt: skip
                grouped = stream.group_by("key").window(window).agg(n=ps.count(), s=ps.sum("v"))
                app.view("result", grouped.trigger(ps.never()))
                return app

            epochs = Epochs()
            run_engine(spark, make, epochs)
            cells.append(f"{PER_FILE / statistics.median(epochs.whole[fills + 1 :]) / 1000:,.0f} k/s")
        shutil.rmtree(folder)
        lines.append([f"{count:,}", *cells])
    head = ["keys", "in windows of an hour", "global"]
    report.table(f"Events a second by keys in the state, epochs of {PER_FILE:,} events on random keys", head, lines)


def write_filled(folder: Path, count: int) -> int:
    """Files in which every key comes once, and five with random keys; how many of the first kind there are."""
    chance = np.random.default_rng(2)
    fills = max(1, count // 1_250_000)
    chunks = [*np.array_split(chance.permutation(count), fills)]
    chunks += [chance.integers(0, count, PER_FILE) for _ in range(6)]
    for number, key in enumerate(chunks):
        at = START + number * 1_000_000 + np.arange(len(key)) % 1_000_000
        table = {"at": pa.array(at, pa.timestamp("us", tz="UTC")), "key": key, "v": chance.integers(0, 1000, len(key))}
        pq.write_table(pa.table(table), folder / f"{number:04}.parquet")
        os.utime(folder / f"{number:04}.parquet", (number, number))  # Spark reads the oldest first
    return fills


def where_time_goes(report: Report, spark: SparkSession, root: Path) -> None:
    jobs = {
        "100 k keys": lambda: Job("parquet", KEYS, "key", None, "v").app(root / "keys", 1),
        "100 k keys, 5 files": lambda: Job("parquet", KEYS, "key", None, "v").app(root / "keys", 5),
        "Yahoo, JSON": lambda: Job("json", ADS, "substr(ad_id, 1, 3)", "event_type = 'view'", None).app(
            root / "ads-json", 1
        ),
    }
    columns: dict[str, dict[str, float]] = {}
    for name, make in jobs.items():
        epochs = Epochs()
        run_engine(spark, make, epochs)
        later = epochs.parts[1:] or epochs.parts
        columns[name] = {part: statistics.median(p[part] for p in later) for part in later[0]}
    parts = list(next(iter(columns.values())))
    lines = [[part, *(f"{columns[name][part] * 1000:,.0f} ms" for name in jobs)] for part in parts]
    lines.append(["together", *(f"{sum(columns[name].values()) * 1000:,.0f} ms" for name in jobs)])
    report.table("Where an epoch's time goes (medians)", ["part", *jobs], lines)


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        for name in ("keys", "ads-parquet", "ads-json"):
            (root / name).mkdir()
        write_keys(root / "keys")
        write_ads(root / "ads-parquet", "parquet")
        write_ads(root / "ads-json", "json")
        options = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
        spark = spark_session("penstock-bench", master="local[2]", options=options)
        tables = {"jobs": side_by_side, "views": many_views, "keys": many_keys, "parts": where_time_goes}
        only = chosen(tables)
        report = Report("-".join(["engine", *only]), " ".join(["python bench/engine.py", *sys.argv[1:]]))
        for name in only or tables:
            tables[name](report, spark, root)
        report.write()
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
