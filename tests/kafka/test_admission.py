"""A surge on a topic: epochs become fuller, up to their limit; all is counted once, and the lag is told."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka.admin import NewPartitions
from typer.testing import CliRunner

import penstock as ps
from penstock.cli import cli
from penstock.cli.lag import read_lags
from penstock.runtime.queries.admission import EVENTS
from tests.kafka.support import asked, at, counting, running


def notes(run) -> list[dict[str, int]]:
    columns = ("stream", "rows", "unit", "limit", "taken", "behind")
    sql = "SELECT stream, rows, unit, \"limit\", taken, behind FROM __commits WHERE kind = 'epoch'"
    return [dict(zip(columns, row, strict=True)) for row in asked(run, sql)]


def test_a_surge_fills_epochs_up_to_a_limit_that_grows_and_is_remembered(kafka, topic, state, spark):
    options = {"target": "60 seconds", "bounds": [replace(EVENTS, start=300, floor=50, ceiling=1000)]}
    name = topic(2)
    app, _ = counting(ps.kafka(name, servers=kafka.servers), watermark=ps.bounded("1 day", idle=None))
    for partition in (0, 1):
        kafka.put(name, *[{"k": "a", "v": n, "at": at(n % 60)} for n in range(100)], partition=partition)
    with running(app, state, spark, **options) as run:
        for partition in (0, 1):
            kafka.put(name, *[{"k": "b", "v": n, "at": at(n % 60)} for n in range(4000)], partition=partition)
        run.catch_up()
        assert dict(asked(run, "SELECT k, sum(n) FROM counts GROUP BY k")) == {"a": 200, "b": 8000}
        noted = notes(run)
        assert all(note["rows"] <= note["limit"] + 2 for note in noted)  # each partition gives at least one
        limits = [note["limit"] for note in noted]
        assert limits[0] == 300
        assert limits[-1] > 2 * 300, "full epochs that are far from their target let it grow"
        assert any(note.get("behind") for note in noted)
        assert noted[-1]["behind"] == 0
        lag = read_lags(run.store)["events"]
        assert (lag.behind, lag.limit, lag.unit, lag.seconds) == (0, limits[-1], "events", 0.0)
    told = CliRunner().invoke(cli, ["status", "--dir", str(state)]).output
    assert "behind the log" in told
    lags = told.partition("behind the log")[2].splitlines()
    assert any(line.split()[:1] == ["events"] for line in lags)
    # The topic grows while the app is down: the new partition is read from its beginning, with the limit as it was.
    kafka.admin.create_partitions([NewPartitions(name, 3)])[name].result()
    kafka.put(name, *[{"k": "c", "v": n, "at": at(n % 60)} for n in range(500)], partition=2)
    with running(app, state, spark, **options) as run:
        assert dict(asked(run, "SELECT k, sum(n) FROM counts GROUP BY k")) == {"a": 200, "b": 8000, "c": 500}
        assert notes(run)[-1]["limit"] == limits[-1]


def test_without_a_target_and_with_a_number_that_is_said_nothing_is_limited(kafka, topic, state, spark):
    name = topic()
    kafka.put(name, *[{"k": "a", "v": n, "at": at(1)} for n in range(50)])
    for directory, log, options, expected in (
        ("all", ps.kafka(name, servers=kafka.servers), {"target": None}, [50]),
        ("said", ps.kafka(name, servers=kafka.servers, events_per_epoch=25), {}, [25, 25]),
    ):
        app, _ = counting(log)
        with running(app, state / directory, spark, **options) as run:
            assert [note["rows"] for note in notes(run)] == expected
            assert all(note["limit"] is None for note in notes(run))
