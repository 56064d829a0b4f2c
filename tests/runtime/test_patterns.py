"""Patterns on Spark: what the same pattern finds without it, with files that come in disorder and a restart between."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.model.process import Processed
from penstock.runtime.run import Run
from penstock.testing import TestStream, process
from tests.faults.support import until

SCHEMA = "symbol string, price bigint, at timestamp"
DIP = (
    ps.pattern("top", lambda e: True)
    .then("down", lambda e, m: e.price < m.last("down", "top").price, "+", greedy=True)
    .then("up", lambda e, m: e.price > m.first("top").price)
    .within("20 seconds")
    .skip("past last")
)


def define(root: Path) -> tuple[App, ps.Stream, Processed]:
    app = App("market")
    trades = app.stream(
        "trades", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    dips = app.match(
        "dips", trades, DIP, by="symbol", output="symbol string, lowest bigint, at timestamp",
        give=lambda key, m: {"symbol": key, "lowest": m.last("down").price, "at": m.last("up").at},
    )  # fmt: skip
    app.view("by_symbol", dips.group_by("symbol").agg(n=ps.count(), lowest=ps.sum("lowest")))
    return app, trades, dips


@pytest.mark.deep
def test_a_pattern_finds_on_spark_what_it_finds_without(spark, tmp_path):
    chance = random.Random(5)
    app, trades, dips = define(tmp_path)
    script = TestStream(trades)
    (tmp_path / "in").mkdir()
    for number in range(4):
        at = [number * 30 + second for second in range(30)]
        chance.shuffle(at)
        rows = [(chance.choice("xy"), chance.randrange(6), f"12:{second // 60:02}:{second % 60:02}") for second in at]
        script = script.add(*rows)
        lines = [json.dumps({"symbol": s, "price": p, "at": f"2000-01-01T{at}Z"}) for s, p, at in rows]
        hidden = tmp_path / f".{number}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (1_000_000_000 + number,) * 2)  # files of the same moment would come in any order
        hidden.rename(tmp_path / "in" / f"{number}.json")
        if number in (1, 3):  # the app is stopped in between
            expected = wanted(process(dips, script).rows)
            run = app.start(tmp_path / "state", spark=spark, tick=0.5)
            try:
                run.catch_up()
                until(lambda run=run, expected=expected: found(run) == expected, run)
            finally:
                run.stop()
            app, _, _ = define(tmp_path)
    assert len(expected) == 2


def found(run: Run) -> list[tuple[object, ...]]:
    return run.store.query("SELECT symbol, n, lowest FROM by_symbol ORDER BY symbol").rows()


def wanted(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    lowest: dict[str, list[int]] = {}
    for row in rows:
        lowest.setdefault(str(row["symbol"]), []).append(int(str(row["lowest"])))
    return [(symbol, len(some), sum(some)) for symbol, some in sorted(lowest.items())]
