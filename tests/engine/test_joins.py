"""Two streams joined by Spark, against the reference: rows, late events, restarts, and events at the very bounds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.app import App
from penstock.lake.master import Master
from penstock.testing import TestStream, join
from tests.strategies import DEEP

LEFT, RIGHT = "ad int, user string, at timestamp", "ad bigint, place string, seen timestamp"
#: Files, each an epoch; the last two take time past everything.
EPOCHS = [
    ("clicks", [(1, "a", "12:00:00"), (2, "b", "12:00:10"), (None, "n", "12:00:10")]),
    ("shown", [(1, "p", "11:59:30"), (1, "q", "11:59:29"), (1, "r", "12:00:05"), (2, "s", "12:00:16")]),
    ("shown", [(3, "t", "12:01:00"), (2, "u", "12:00:15")]),
    ("clicks", [(3, "c", "12:01:30"), (3, "d", "12:01:31")]),
    ("clicks", [(1, "late", "12:00:01"), (3, "e", "12:00:55")]),
    ("shown", [(3, "v", "12:02:00"), (9, "w", "12:02:00")]),
    ("shown", [(3, "late", "12:00:59"), (3, "x", "12:01:35")]),
    ("clicks", [(7, "end", "13:00:00")]),
    ("shown", [(8, "end", "13:00:00")]),
]


def define(root: Path, **said) -> tuple[App, list[ps.Stream], ps.Stream]:
    app = App("ads")
    made = [
        app.stream(
            name, ps.files(root / name, files_per_epoch=1), schema=schema, event_time=time,
            watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
        )
        for name, schema, time in (("clicks", LEFT, "at"), ("shown", RIGHT, "seen"))
    ]  # fmt: skip
    joined = app.join(
        "matched", made[0].where("user <> 'no'"), made[1], on="ad", event_time="coalesce(at, seen)",
        watermark=ps.bounded("1 minute", idle=None), max_ahead=None, **said,
    )  # fmt: skip
    app.view("by_place", joined.group_by("place").agg(n=ps.count()))
    return app, made, joined


def put(root: Path, number: int, name: str, rows: list[tuple]) -> None:
    schema = LEFT if name == "clicks" else RIGHT
    columns = [part.split()[0] for part in schema.split(", ")]
    told = [{**dict(zip(columns, row, strict=True)), columns[2]: f"2000-01-01T{row[2]}Z"} for row in rows]
    hidden = root / name / f".{number}.json"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in told))
    hidden.rename(root / name / f"{number}.json")


def want(root: Path, **said) -> tuple[Counter, Counter]:
    _, streams, joined = define(root, **said)
    script = TestStream(*streams)
    for name, rows in EPOCHS:
        script = script.add(*rows, to=name)
    found = join(joined, script)
    late = Counter(one.event.row.get("user", one.event.row.get("place")) for one in found.late)
    return Counter((row[1], row[3]) for row in found.rows), late


#: These are for the deep run: each epoch starts several processes. By default Nexmark's queries join on Spark.
KINDS: dict[str, dict[str, Any]] = {
    "full": {"how": "full", "within": ("-30 seconds", "5 seconds")},
    "window": {"how": "inner", "window": ps.fixed("1 minute")},
    "inner": {"how": "inner", "within": ("-30 seconds", "5 seconds")},
}


@pytest.mark.skipif(not DEEP, reason="for the deep run")
@pytest.mark.parametrize("said", KINDS.values(), ids=KINDS)
def test_spark_joins_as_the_reference_does_over_restarts(spark, tmp_path, said):
    for name in ("clicks", "shown"):
        (tmp_path / name).mkdir()
    for part in (EPOCHS[:5], EPOCHS[5:]):
        app, _, joined = define(tmp_path, **said)
        run = app.run(tmp_path / "state", spark=spark, tick=0.2).start()
        try:
            for name, rows in part:
                put(tmp_path, EPOCHS.index((name, rows)), name, rows)
                run.catch_up()
            run.catch_up()
            rows, late = want(tmp_path, **said)
            end = [("end", None), (None, "end")]  # for these, time has not passed yet
            if part is EPOCHS[5:] or part[-1] == EPOCHS[-1]:
                wanted = Counter({pair: count for pair, count in rows.items() if pair not in end})
                for _ in range(1200):
                    kept = Master(run.store).past(joined).read()
                    if Counter(kept.select("user", "place").iter_rows()) == wanted:
                        break
                    run.wait(0.1)
                assert Counter(kept.select("user", "place").iter_rows()) == wanted
                refused = run.store.query(
                    "SELECT row FROM __refused WHERE kind = 'late' AND stream = 'matched'"
                ).to_series()
                told = Counter(row.get("user", row.get("place")) for row in map(json.loads, refused))
                assert told == late
                assert run.store.counters().get("matched.late", 0) == late.total() > 0
                total = run.store.query("SELECT sum(n) FROM by_place").item()
                assert total == wanted.total()
        finally:
            run.stop()
