"""Small epochs of files are reduced on the driver, without a Spark job, and come to the same."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import penstock as ps
from penstock.model.types import Schema
from penstock.process_state import process
from penstock.runtime.epoch.small import EARLY_EPOCH_BYTES, SMALL_EPOCH, SMALL_EPOCH_BYTES
from penstock.runtime.spark.internals import cloned_session
from penstock.runtime.spark.workers import WorkerStart
from penstock.sources import Files
from penstock.store.arrivals import Ages
from penstock.store.operator_timings import LATEST_DETAILS
from penstock.store.spark_work import SparkWork, latest_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = (
    '{"id": "a", "k": "x", "v": 1, "at": "2024-05-01T12:00:00Z"}',
    '{"id": "b", "k": "y", "v": 2, "at": "2024-05-01T12:00:01Z"}',
    '{"id": "a", "k": "x", "v": 1, "at": "2024-05-01T12:00:00Z"}',
    '{"id": "c", "k": "x", "v": "no number", "at": "2024-05-01T12:00:02Z"}',
    '{"id": "d", "k": null, "v": 4, "at": "2024-05-01T12:01:02Z"}',
)


def read_files(spark: SparkSession, root: Path, most: int, id: str | None) -> tuple[SparkWork, Any]:
    """Runs an app over two files: the work of Spark that its epochs noted, and what came of them."""
    (root / "in").mkdir(parents=True)
    for name, lines in (("1", LINES[:3]), ("2", LINES[2:])):
        (root / "in" / f"{name}.json").write_text("\n".join(lines) + "\n")
        os.utime(root / "in" / f"{name}.json", (0, time.time() - 3600))
    session = cloned_session(spark)
    session.conf.set(SMALL_EPOCH, str(most))
    app = ps.App("small")
    stream = app.stream(
        "events", ps.files(root / "in"), schema="id string, k string, v int, at timestamp", event_time="at",
        watermark=ps.bounded("5 seconds"), id=id, max_ahead=None,
    )  # fmt: skip
    app.view("sums", stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count(), v=ps.sum("v")))
    run = app.start(root / "state", spark=session, tick=3600.0)
    try:
        run.catch_up()
        sums = run.store.query("SELECT k, n, v FROM sums ORDER BY k, n").rows()
        rejected = run.store.query("SELECT stream, kind, reason FROM __refused ORDER BY kind, reason").rows()
        texts = run.store.query("SELECT ages FROM __arrivals")["ages"]
        youngest = min(age for text in texts for age, _ in Ages.parsed(text).items())
        works = [latest_work([text])["events"] for text in run.store.query(LATEST_DETAILS)["details"]]
        total = SparkWork(sum(work.jobs for work in works), sum(work.stages for work in works))
        return total, (sums, rejected, youngest > 3_300_000)
    finally:
        run.stop()


def test_small_epochs_need_no_job_and_come_to_the_same(spark, tmp_path):
    work, results = read_files(spark, tmp_path / "driver", SMALL_EPOCH_BYTES, None)
    work_of_tasks, same = read_files(spark, tmp_path / "tasks", 0, None)
    assert (work, results) == (SparkWork(0, 0), same)
    assert work_of_tasks.jobs == work_of_tasks.stages > 0  # nothing is exchanged between tasks
    assert results[0] == [(None, 1, 4), ("x", 3, 3), ("y", 1, 2)]
    assert results[2], "events arrive when their file was written"


def test_small_epochs_know_the_ids_of_earlier_ones(spark, tmp_path):
    work, results = read_files(spark, tmp_path / "driver", SMALL_EPOCH_BYTES, "id")
    _, same = read_files(spark, tmp_path / "tasks", 0, "id")
    assert (work, results) == (SparkWork(0, 0), same)
    assert results[0] == [(None, 1, 4), ("x", 1, 1), ("y", 1, 2)]


class NoWorkersYet:
    """Stands for a session whose workers are not there until it is told so."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    @property
    def sparkContext(self) -> None:
        self.is_over.wait()
        raise RuntimeError("the session has ended")


def test_the_driver_reduces_larger_epochs_while_workers_are_being_started(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    line = '{"k": "x", "v": 1}\n'
    count = SMALL_EPOCH_BYTES // len(line) + 1
    session = cloned_session(spark)
    session.conf.unset(SMALL_EPOCH)
    app = ps.App("early")
    stream = app.stream("events", ps.files(folder, files_per_epoch=1), schema="k string, v int", keep="none")
    app.view("sums", stream.group_by("k").agg(n=ps.count(), v=ps.sum("v")))
    waiting, workers = NoWorkersYet(), process.of(WorkerStart)
    starting = workers.begin(waiting)  # type: ignore[arg-type]
    works = []
    with app.start(tmp_path / "state", spark=session, tick=3600.0) as run:
        for name in ("1", "2"):
            (tmp_path / name).write_text(line * count)
            (tmp_path / name).rename(folder / f"{name}.json")
            run.catch_up()
            works.append(latest_work(run.store.query(LATEST_DETAILS)["details"])["events"].jobs)
            waiting.is_over.set()
            starting.join()
        assert run.store.query("SELECT k, n, v FROM sums").rows() == [("x", 2 * count, 2 * count)]
    assert works[0] == 0
    assert works[1] > 0
    assert not workers.goes_on
    assert SMALL_EPOCH_BYTES < count * len(line) < EARLY_EPOCH_BYTES


def test_the_size_of_an_epoch_decides_and_compressed_files_count_for_more():
    schema, files = Schema.parse("k string, v int"), Files("in")
    plain, packed = {"/in/1.json": range(10)}, {"/in/1.json.gz": range(10)}
    assert files.small_epoch(plain, 1000, schema, 1000).to_pydict() == {"__path": ["/in/1.json"]}
    assert files.small_epoch(plain, 1001, schema, 1000) is None
    assert files.small_epoch(packed, 1000, schema, 1000) is None
    assert files.small_epoch(packed, 10, schema, 1000) is not None
    assert files.small_epoch(plain, None, schema, 1000) is None
    assert Files("in", "csv").small_epoch(plain, 10, schema, 1000) is None


def test_parquet_counts_by_the_columns_that_are_read(tmp_path):
    count, schema = 10_000, Schema.parse("k bigint, v bigint, text string")
    frame = pl.DataFrame({"k": [1] * count, "v": range(count), "text": ["x" * 100] * count})
    frame.write_parquet(tmp_path / "1.parquet")
    path, size = str(tmp_path / "1.parquet"), (tmp_path / "1.parquet").stat().st_size
    files = Files(str(tmp_path), "parquet")

    def fits(columns: tuple[str, ...], most: int, paths: list[str] | None = None) -> bool:
        return files.small_epoch(paths or [path], size, schema.pick(columns), most) is not None

    assert size < 8 * count, "the file is smaller than its columns"
    assert fits(("k",), 10 * count)
    assert not fits(("k",), 8 * count)
    assert fits(("k", "v"), 18 * count)
    assert not fits(("k", "v"), 16 * count)
    assert not fits(("k",), 100 * count, [path] * 100), "many small files are much work"
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    assert fits(("k",), 100 * count, [str(tmp_path / "damaged.parquet")])
