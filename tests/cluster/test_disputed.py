"""A driver that was taken over may still write to Spark's log: the one that goes on reads that, and counts it once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from tests.cluster.support import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def write(root: Path, name: str, *keys: str) -> Path:
    hidden = root / f".{name}"
    hidden.write_text("".join(json.dumps({"k": key}) + "\n" for key in keys))
    return hidden.rename(root / "in" / f"{name}.json")


def test_an_epoch_that_another_process_has_announced_is_taken_from_the_log(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "in").mkdir()
    app = ps.App("disputed")
    events = app.stream("events", ps.files(tmp_path / "in", files_per_epoch=1), schema="k string")
    app.view("counts", events.group_by("k").agg(n=ps.count()))
    write(tmp_path, "first", "a", "b")
    run = app.start(tmp_path / "state", spark=spark, tick=0.1)
    try:
        run.catch_up()
        checkpoint = tmp_path / "state" / "checkpoints" / "events"
        before = [json.loads(line) for line in (checkpoint / "sources" / "0" / "0").read_text().splitlines()[1:]]
        path = str(before[0]["path"]).replace("first", "second")
        listed = {**before[0], "path": path, "batchId": 1}
        (checkpoint / "sources" / "0" / "1").write_text(f"v1\n{json.dumps(listed)}")
        head, *_ = (checkpoint / "offsets" / "0").read_text().rpartition("\n")
        (checkpoint / "offsets" / "1").write_text(f'{head}\n{{"logOffset":1}}')

        write(tmp_path, "second", "b", "c")
        until(lambda: run.faults or run.store.counters().get("events.events") == 4, "the fault, or its end")
        write(tmp_path, "third", "c")
        until(lambda: run.store.counters().get("events.events") == 5, "all events")
        run.catch_up()
        assert run.faults == {}
        found = run.store.query("SELECT k, n FROM counts ORDER BY k").rows()
        epochs = run.store.query("SELECT epoch, offsets FROM __commits WHERE kind = 'epoch' ORDER BY number").rows()
    finally:
        run.stop()
    assert "the stream 'events' failed" in caplog.text, "there was a dispute"
    assert found == [("a", 1), ("b", 2), ("c", 2)]
    assert epochs == [(number, f'{{"logOffset":{number}}}') for number in range(3)]
