"""Nexmark's queries as views against the same in hand-written Structured Streaming, on the same Parquet files.

    python bench/nexmark.py [--quick] [--only q7 q18]

Hand-written means: update mode, or append mode where one aggregation stands over another, RocksDB state, and an upsert
into SQLite in `foreachBatch`. Each query runs alone, both ways in turn, after a first turn to warm up. What Structured
Streaming refuses (distinct counts, the top ten, averages over results that change) has Penstock's number only. Of q7
the hand-written query shows one of the highest bids, and Penstock's all of them. q4 joins bids with their auctions; its
rate counts both, on fewer files.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import adbc_driver_sqlite.dbapi as adbc
import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.engine import ROCKSDB
from bench.side_by_side import Report, chosen
from examples.nexmark import joins
from examples.nexmark.events import BID, RECEIVED, Nexmark
from examples.nexmark.queries import VIEWS, streams
from penstock.runtime.spark.session import spark_session

QUICK = "--quick" in sys.argv
FILES, PER_FILE, TURNS = (3, 100_000, 1) if QUICK else (8, 250_000, 3)
#: Events a second of event time: an epoch is some seconds of the stream, and windows come and go.
RATE = 50_000
BANDS = {"low": "price < 10000", "middle": "price BETWEEN 10000 AND 999999", "high": "price >= 1000000"}


def counted(condition: str) -> Column:
    return F.count(F.when(F.expr(condition), 1))


def timely(bids: DataFrame) -> DataFrame:
    return bids.withWatermark("at", "4 seconds")


def native_q5(bids: DataFrame) -> DataFrame:
    counts = timely(bids).groupBy(F.window("at", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("n"))
    return counts.groupBy("window").agg(F.max("n").alias("n"), F.max_by("auction", "n").alias("auction"))


def native_q7(bids: DataFrame) -> DataFrame:
    best = F.max_by(F.struct("auction", "bidder"), "price")
    return timely(bids).groupBy(F.window("at", "10 seconds")).agg(F.max("price").alias("price"), best.alias("bid"))


def native_q11(bids: DataFrame) -> DataFrame:
    return (
        timely(bids)
        .groupBy(F.session_window("at", "10 seconds").alias("window"), "bidder")
        .agg(F.count("*").alias("n"))
    )


def native_q17(bids: DataFrame) -> DataFrame:
    parts = [counted(where).alias(name) for name, where in BANDS.items()]
    price = [getattr(F, one)("price").alias(one) for one in ("min", "max", "avg", "sum")]
    return timely(bids).groupBy(F.window("at", "1 day"), "auction").agg(F.count("*").alias("n"), *parts, *price)


def native_q18(bids: DataFrame) -> DataFrame:
    last = F.max_by(F.struct("price", "channel", "url", "at", "extra"), "at")
    return bids.groupBy("bidder", "auction").agg(last.alias("bid"))


#: The query by hand, its output mode, and what tells its rows apart.
NATIVE: dict[str, tuple[Callable[[DataFrame], DataFrame], str, list[str]]] = {
    "q5": (native_q5, "append", ["window"]),
    "q7": (native_q7, "update", ["window"]),
    "q11": (native_q11, "append", ["window", "bidder"]),
    "q17": (native_q17, "update", ["window", "auction"]),
    "q18": (native_q18, "update", ["bidder", "auction"]),
}
OURS = ("q4", "q5", "q7", "q11", "q15", "q17", "q18", "q19")


#: Queries that read auctions too, from so many files.
JOINED = {"q4": 2}


def write(folder: Path) -> None:
    """The bids and the auctions as Parquet; for joins the first files of each once more."""
    source, times = Nexmark(RATE, disorder=200), pl.col(pl.Datetime).cast(pl.Datetime("us", "UTC"))
    for number in range(FILES):
        parts = source.parts(number * PER_FILE, PER_FILE)
        for place in ("", *(query for query, files in JOINED.items() if number < files)):
            for name in ("bids", "auctions") if place else ("bids",):
                (folder / place / name).mkdir(parents=True, exist_ok=True)
                parts[name].with_columns(times).write_parquet(folder / place / name / f"{number:04}.parquet")


def run_native(spark: SparkSession, query: str, folder: Path) -> float:
    make, mode, keys = NATIVE[query]
    bids = spark.readStream.schema(BID + RECEIVED).option("maxFilesPerTrigger", 1).parquet(str(folder / "bids"))
    with tempfile.TemporaryDirectory() as work:
        store = adbc.connect(f"{work}/store.db", autocommit=True)
        with store.cursor() as cursor:
            cursor.execute("pragma journal_mode=wal")
            cursor.fetchall()
            cursor.execute("pragma synchronous=full")
        store.adbc_connection.set_autocommit(False)
        made = False

        def upsert(rows: DataFrame, number: int) -> None:
            nonlocal made
            columns = [F.unix_micros(f"{name}.start").alias(name) if name == "window" else F.col(name) for name in keys]
            rest = [
                F.to_json(name).alias(name) if kind.startswith("struct") else F.col(name)
                for name, kind in rows.dtypes
                if name not in keys
            ]
            found = rows.select(*columns, *rest).toArrow()
            if not len(found):
                return
            with store.cursor() as cursor:
                if not made:
                    names = ", ".join(f'"{name}"' for name in found.column_names)
                    by = ", ".join(f'"{name}"' for name in keys)
                    cursor.execute(f"create table v({names}, primary key({by})) without rowid")
                    made = True
                cursor.adbc_ingest("delta", found, mode="replace", temporary=True)
                cursor.execute("insert or replace into v select * from delta")
            store.commit()

        begun = time.perf_counter()
        query_ = make(bids).writeStream.outputMode(mode).foreachBatch(upsert)
        query_ = query_.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start()
        query_.awaitTermination()
        seconds = time.perf_counter() - begun
        store.close()
        return seconds


def run_ours(spark: SparkSession, query: str, folder: Path) -> float:
    with tempfile.TemporaryDirectory() as work:
        app = ps.App("bench")
        place, keep = (folder / query, "all") if query in JOINED else (folder, "none")
        found = streams(app, lambda name: ps.files(place / name, format="parquet", files_per_epoch=1), keep=keep)
        for name in ("persons",) if query in JOINED else ("persons", "auctions"):
            del app.streams[name]
        {**VIEWS, **joins.VIEWS}[query](found)
        begun = time.perf_counter()
        run = app.start(Path(work) / "state", spark=spark, tick=3600.0)
        run.catch_up()
        seconds = time.perf_counter() - begun
        assert run.store.counters()["bids.events"] > 0.9 * JOINED.get(query, FILES) * PER_FILE
        run.stop()
        return seconds


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        root = Path(scratch)
        write(root)
        bids = FILES * PER_FILE * 46 // 50
        options = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.providerClass": ROCKSDB}
        spark = spark_session("bench", master="local[2]", options=options)
        lines = []
        only = chosen(OURS)
        for query in only or OURS:
            taken: dict[str, list[float]] = {"native": [], "ours": []}
            for turn in range(TURNS + 1):
                native = run_native(spark, query, root) if query in NATIVE else None
                ours = run_ours(spark, query, root)
                if turn:  # the first one warms up
                    taken["ours"].append(ours)
                    taken["native"] += [] if native is None else [native]
            events = bids if query not in JOINED else JOINED[query] * PER_FILE * 49 // 50
            rate = events / statistics.median(taken["ours"]) / 1000
            if query in NATIVE:
                by_hand = bids / statistics.median(taken["native"]) / 1000
                ratio = statistics.median(n / o for n, o in zip(taken["native"], taken["ours"], strict=True))
                lines.append([query, f"{by_hand:,.0f} k/s", f"{rate:,.0f} k/s", f"{ratio:.2f}"])
            else:
                lines.append([query, "refused", f"{rate:,.0f} k/s", "–"])
        report = Report("-".join(["nexmark", *only]), " ".join(["python bench/nexmark.py", *sys.argv[1:]]))
        head = ["query", "hand-written", "Penstock", "Penstock, of hand-written"]
        report.table(f"{bids:,} bids in epochs of {PER_FILE * 46 // 50:,} from Parquet into SQLite", head, lines)
        if not QUICK:
            report.write()
        spark.stop()


if __name__ == "__main__":
    main()
