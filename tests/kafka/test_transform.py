"""A stream from Kafka and the DataFrame code behind it: one Spark job or one after the other, with the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.runtime.epoch import reduction
from penstock.runtime.epoch.reduction import Reduction
from tests.kafka.support import asked, at, running

SCHEMA = "k string, v int, at timestamp, id string"


def event(k: str, v: int, id: str, seconds: float = 1) -> dict[str, object]:
    return {"k": k, "v": v, "at": at(seconds), "id": id}


def put(kafka: Any, name: str) -> None:
    kafka.put(name, event("a", 1, "1"), "no json", event("b", 2, "2"), event("a", 3, "1"))
    kafka.put(name, event("a", 4, "3"), {"k": "c", "v": 5, "id": "4"}, event("b", 6, "2"), partition=1)


def coded(name: str, servers: str, code: Any, select: bool = False) -> ps.App:
    """Views and a sink behind code, beside a view of the stream itself."""
    app = ps.App("test")
    stream = app.stream(
        "events", ps.kafka(name, servers=servers), schema=SCHEMA, event_time="at", id="id",
        watermark=ps.bounded("0 seconds", idle=None),
    )  # fmt: skip
    made = stream.transform(code)
    text = "element_at(slice(array(k), 1, 1), 1)" if select else "k"  # Spark computes the longer one
    app.view("plain", stream.group_by(k=text).window(ps.fixed("10 seconds")).agg(n=ps.count(), v=ps.sum("v")))
    app.view("made", made.group_by("k").agg(n=ps.count(), first=ps.first("v"), list=ps.collect_list("v")))
    app.view("again", stream.transform(lambda df: df.where("v > 1")).group_by("k").agg(n=ps.count()))
    return app


def left(app: ps.App, state: Path, spark: Any) -> dict[str, list[tuple[Any, ...]]]:
    """All that an epoch leaves in the store."""
    with running(app, state, spark) as run:
        return {
            "plain": asked(run, "SELECT k, n, v FROM plain ORDER BY k"),
            "made": asked(run, "SELECT k, n, first, list FROM made ORDER BY k"),
            "again": asked(run, "SELECT k, n FROM again ORDER BY k"),
            "ids": asked(run, 'SELECT id, at FROM "__ids_events" ORDER BY id'),
            "counters": asked(run, "SELECT name, value FROM __counters ORDER BY name"),
            "refused": asked(
                run, "SELECT kind, view, partition, offset, reason, row FROM __refused ORDER BY 1, 2, 3, 4"
            ),
            "files": asked(run, "SELECT kind, rows FROM __files ORDER BY 1, 2"),
        }


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each job had that did several."""
    calls: list[int] = []
    taken_together = reduction.taken_together

    def counted(parts: Any) -> Any:
        calls.append(len(parts))
        return taken_together(parts)

    monkeypatch.setattr(reduction, "taken_together", counted)
    return calls


@pytest.mark.parametrize("select", [False, True], ids=["read in tasks", "with columns of Spark"])
def test_one_job_gives_what_several_give(kafka, topic, tmp_path, spark, monkeypatch, together, select):
    name = topic(2)
    put(kafka, name)
    app = coded(name, kafka.servers, lambda df: df.withColumn("v", F.col("v") * 10), select)
    one = left(app, tmp_path / "one", spark)
    assert together == [3]  # two pieces of code, and the stream
    monkeypatch.setattr(Reduction, "_fits_one_job", lambda *_: False)
    assert left(app, tmp_path / "several", spark) == one
    assert together == [3]
    assert [row[:2] for row in one["made"]] == [("a", 2), ("b", 1)]
    assert {row[0] for row in one["refused"]} == {"dead", "duplicate"}
    assert one["ids"]
    assert one["files"]


def test_a_row_on_which_the_code_fails_is_a_dead_letter_and_the_others_count_once(
    kafka, topic, tmp_path, spark, monkeypatch, together
):
    @F.udf("int")
    def strict(number):
        if number == 2:
            raise ValueError(f"no such number: {number}")
        return number

    name = topic(2)
    put(kafka, name)
    app = coded(name, kafka.servers, lambda df: df.withColumn("v", strict("v")))
    one = left(app, tmp_path / "one", spark)
    assert together == [3]
    monkeypatch.setattr(Reduction, "_fits_one_job", lambda *_: False)
    assert left(app, tmp_path / "several", spark) == one
    assert [(row[0], row[1]) for row in one["plain"]] == [("a", 2), ("b", 1)]
    assert [row[:2] for row in one["made"]] == [("a", 2)]
    assert ("dead", "made", "ValueError: no such number: 2") in [(row[0], row[1], row[4]) for row in one["refused"]]
