"""Small epochs of files are reduced on the driver, without a Spark job, and come to the same."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.model.types import Schema
from penstock.runtime.epoch.reduction import SMALL_EPOCH, SMALL_EPOCH_BYTES
from penstock.runtime.spark.internals import cloned_session
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


def read_files(spark: SparkSession, root: Path, most: int, id: str | None) -> tuple[int, Any, SparkWork]:
    """Runs an app over two files in one epoch: how many jobs Spark ran, what came of it, and the work that it noted."""
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
    scheduler: Any = session.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    run = app.start(root / "state", spark=session, tick=3600.0)
    try:
        run.catch_up()
        sums = run.store.query("SELECT k, n, v FROM sums ORDER BY k, n").rows()
        rejected = run.store.query("SELECT stream, kind, reason FROM __refused ORDER BY kind, reason").rows()
        texts = run.store.query("SELECT ages FROM __arrivals")["ages"]
        youngest = min(age for text in texts for age, _ in Ages.parsed(text).items())
        work = latest_work(run.store.query(LATEST_DETAILS)["details"])["events"]
        return scheduler.numTotalJobs() - before, (sums, rejected, youngest > 3_300_000), work
    finally:
        run.stop()


def test_small_epochs_need_no_job_and_come_to_the_same(spark, tmp_path):
    jobs, results, work = read_files(spark, tmp_path / "driver", SMALL_EPOCH_BYTES, None)
    jobs_of_tasks, same, work_of_tasks = read_files(spark, tmp_path / "tasks", 0, None)
    assert (jobs, results, work) == (0, same, SparkWork(0, 0))
    assert work_of_tasks == SparkWork(jobs_of_tasks, stages=jobs_of_tasks)  # nothing is exchanged between tasks
    assert jobs_of_tasks > 0
    assert results[0] == [(None, 1, 4), ("x", 3, 3), ("y", 1, 2)]
    assert results[2], "events arrive when their file was written"


def test_small_epochs_know_the_ids_of_earlier_ones(spark, tmp_path):
    jobs, results, _ = read_files(spark, tmp_path / "driver", SMALL_EPOCH_BYTES, "id")
    _, same, _ = read_files(spark, tmp_path / "tasks", 0, "id")
    assert (jobs, results) == (0, same)
    assert results[0] == [(None, 1, 4), ("x", 1, 1), ("y", 1, 2)]


def test_the_size_of_an_epoch_decides_and_compressed_files_count_for_more():
    schema, files = Schema.parse("k string, v int"), Files("in")
    plain, packed = {"/in/1.json": range(10)}, {"/in/1.json.gz": range(10)}
    assert files.small_epoch(plain, 1000, schema, 1000).to_pydict() == {"__path": ["/in/1.json"]}
    assert files.small_epoch(plain, 1001, schema, 1000) is None
    assert files.small_epoch(packed, 1000, schema, 1000) is None
    assert files.small_epoch(packed, 10, schema, 1000) is not None
    assert files.small_epoch(plain, None, schema, 1000) is None
    assert Files("in", "csv").small_epoch(plain, 10, schema, 1000) is None
