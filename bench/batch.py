"""Batch runs over the history against a plain Spark aggregation and DuckDB on the same Parquet, and what they disturb.

    python bench/batch.py [--quick] [--only whole questions growth]

Three tables: how fast the whole history is computed; how long questions take before, during and after a batch run and
its swap, on a view of many rows; and what ten times the history does to a batch run over the newest hour.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import adbc_driver_sqlite.dbapi as adbc
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, chosen, measure, middle, milliseconds, ratio
from penstock.app import App
from penstock.history.batch.generation import Progress
from penstock.history.batch.runs import batch
from penstock.query.ask import Questions
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session
from penstock.store import Reader

QUICK = "--quick" in sys.argv
START = 1_700_000_000_000_000
HOUR = 3_600_000_000
SCHEMA = "at timestamp, key bigint, v bigint"


def write(folder: Path, name: str, rows: int, keys: int, first: int, span: int) -> None:
    """A file of events with skewed keys, evenly over a span of time."""
    chance = np.random.default_rng(first % (1 << 32))
    table = {
        "at": pa.array(first + np.sort(chance.integers(0, span, rows)), pa.timestamp("us", tz="UTC")),
        "key": chance.zipf(1.3, rows) % keys,
        "v": chance.integers(0, 1000, rows),
    }
    pq.write_table(pa.table(table), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def started(root: Path, spark: SparkSession, window: str, files: int) -> tuple[Run, ps.View]:
    (root / "in").mkdir(parents=True, exist_ok=True)
    app = App("bench")
    stream = app.stream(
        "events", ps.files(root / "in", format="parquet", files_per_epoch=files), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("10 seconds"),
    )  # fmt: skip
    view = app.view("by_key", stream.group_by("key").window(ps.fixed(window)).agg(n=ps.count(), total=ps.sum("v")))
    return app.start(root / "state", spark=spark, tick=3600.0), view


def computed(run: Run, whole: bool = True) -> dict[str, float]:
    """One batch run; the seconds that each of its phases took, and all of them."""
    marks: list[tuple[str, float]] = []

    def told(progress: Progress) -> None:
        if not marks or marks[-1][0] != progress.phase:
            marks.append((progress.phase, time.perf_counter()))

    begun = time.perf_counter()
    list(batch(run, ["by_key"], whole=whole, on_progress=told))
    ends = [*(at for _, at in marks[1:]), time.perf_counter()]
    found = {phase: end - at for (phase, at), end in zip(marks, ends, strict=True)}
    return found | {"all": time.perf_counter() - begun}


def whole_history(report: Report, spark: SparkSession, root: Path) -> None:
    files, rows = (4, 250_000) if QUICK else (16, 500_000)
    run, _ = started(root, spark, "10 minutes", files)
    try:
        for number in range(files):
            write(root / "in", f"{number:04}", rows, 10_000, START + number * HOUR, HOUR)
        run.catch_up()
        history = run.history
        assert history is not None
        paths = [history.place.path(file.path) for file in history.past(run.streams["events"]).files]
        phases: list[dict[str, float]] = []

        def spark_does() -> None:
            frame = spark.read.parquet(*paths)
            window = F.window("at", "10 minutes")
            frame.groupBy("key", window).agg(F.count("*").alias("n"), F.sum("v").alias("total")).toArrow()

        def spark_writes() -> None:
            frame = spark.read.parquet(*paths)
            start = F.window("at", "10 minutes").start
            found = frame.groupBy(F.unix_micros(start).alias("w"), "key").agg(
                F.count("*").alias("n"), F.sum("v").alias("total")
            )
            (root / "by-hand.db").unlink(missing_ok=True)
            with adbc.connect(str(root / "by-hand.db"), autocommit=True) as store, store.cursor() as cursor:
                cursor.execute("pragma synchronous=full")
                cursor.execute("create table v(w integer, key integer, n, total, primary key(w, key)) without rowid")
                cursor.adbc_ingest("delta", found.toArrow(), mode="replace", temporary=True)
                cursor.execute("insert into v select w, key, n, total from delta")

        def duckdb_does() -> None:
            duckdb.sql(
                f'SELECT key, time_bucket(INTERVAL 10 MINUTES, "at") AS w, count(*) AS n, sum(v) AS total '
                f"FROM read_parquet({paths!r}) GROUP BY key, w"
            ).to_arrow_table()

        jobs: dict[str, Callable[[], object]] = {
            "batch run, swapped in": lambda: phases.append(computed(run)),
            "Spark aggregation, to the driver": spark_does,
            "the same, written into a table of SQLite": spark_writes,
            "DuckDB, one shot": duckdb_does,
        }
        taken = measure(jobs, 2 if QUICK else 3)
        groups = run.query("SELECT count(*) FROM by_key").item()
        middles = middle(taken)
        reading = statistics.median(one["reading"] for one in phases[1:])
        lines = [[name, milliseconds(s), f"{files * rows / s / 1e6:.2f} M/s"] for name, s in middles.items()]
        lines.insert(
            1, ["of that, the past read and reduced", milliseconds(reading), f"{files * rows / reading / 1e6:.2f} M/s"]
        )
        report.table(f"{files * rows / 1e6:.0f} M events, {groups:,} rows of the view", ["", "time", "events"], lines)
        spark_time = middles["Spark aggregation, to the driver"]
        share = 1 / ratio(taken, "batch run, swapped in", "the same, written into a table of SQLite")
        report.note(
            f"As fast as Spark's own aggregation: {spark_time / reading:.0%} for the computation; "
            f"{share:.0%} with the writing and the swap, of one that is written once."
        )
    finally:
        run.stop()


def questions(report: Report, spark: SparkSession, root: Path) -> None:
    rows, keys = (100_000, 100_000) if QUICK else (1_000_000, 1_000_000)
    run, _ = started(root, spark, "1 day", 4)
    try:
        for number in range(2):
            table = {
                "at": pa.array(np.full(rows, START + number), pa.timestamp("us", tz="UTC")),
                "key": np.arange(rows) % keys,
                "v": np.ones(rows, dtype=np.int64),
            }
            pq.write_table(pa.table(table), root / "in" / f"{number}.parquet")
        run.catch_up()
        reader, phase, stop = Questions(Reader(root / "state")), ["before"], threading.Event()
        taken: dict[str, dict[str, list[float]]] = {}

        def ask() -> None:
            chance = np.random.default_rng(3)
            while not stop.is_set():
                key = int(chance.integers(0, keys))
                for what, sql in (
                    ("point", f"SELECT n FROM by_key WHERE key = {key}"),
                    ("range", f"SELECT key, n FROM by_key WHERE key BETWEEN {key} AND {key + 1000}"),
                ):
                    when, begun = phase[0], time.perf_counter()
                    reader.ask(sql)
                    taken.setdefault(what, {}).setdefault(when, []).append(time.perf_counter() - begun)

        asker = threading.Thread(target=ask)
        asker.start()
        time.sleep(3)

        def told(progress: Progress) -> None:
            phase[0] = "swap" if progress.phase == "swapping" else "batch run"

        for _ in range(2 if QUICK else 3):
            list(batch(run, ["by_key"], whole=True, on_progress=told))
        phase[0] = "after"
        time.sleep(2)
        stop.set()
        asker.join()
        lines = []
        for what, by_phase in taken.items():
            before = statistics.median(by_phase["before"])
            for when, times in by_phase.items():
                worst = float(np.quantile(times, 0.99))
                middle_time = statistics.median(times)
                cells = [what, when, str(len(times)), milliseconds(middle_time), milliseconds(worst)]
                lines.append([*cells, f"{middle_time / before:.2f}"])
        head = ["question", "while", "asked", "median", "99 %", "to before"]
        report.table(f"Questions to a view of {rows:,} rows, in the process that computes", head, lines)
    finally:
        run.stop()


def growth(report: Report, spark: SparkSession, root: Path) -> None:
    hours = 4 if QUICK else 12
    lines, found = [], []
    for times in (1, 10):
        folder = root / f"growth-{times}"
        run, _ = started(folder, spark, "10 minutes", 4)
        try:
            for number in range(hours * times):
                write(folder / "in", f"{number:05}", 20_000, 50, START + number * HOUR, HOUR)
            run.catch_up()
            computed(run)
            taken = []
            for number in range(4):
                first = hours * times + number
                write(folder / "in", f"{first:05}", 20_000, 50, START + first * HOUR, HOUR)
                run.catch_up()
                taken.append(computed(run, whole=False)["all"])
            found.append(statistics.median(taken[1:]))
            lines.append([f"{hours * times} hours", f"{20_000 * hours * times:,}", milliseconds(found[-1])])
        finally:
            run.stop()
    report.table("A batch run over the newest hour", ["history", "events", "time"], lines)
    report.note(f"Ten times the history takes {found[1] / found[0]:.2f} times as long.")


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    spark = spark_session("bench", master="local[2]")
    try:
        tables = {"whole": whole_history, "questions": questions, "growth": growth}
        only = chosen(tables)
        report = Report("-".join(["batch", *only]), " ".join(["python bench/batch.py", *sys.argv[1:]]))
        for name in only or tables:
            tables[name](report, spark, root / name)
        report.write()
    finally:
        spark.stop()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
