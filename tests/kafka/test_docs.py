"""The programs of docs/kafka.md do what the page says, on a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import penstock as ps
from penstock import sql
from tests.kafka.support import Clock, asked, at, running
from tests.kafka.test_realtime import wait_for

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_programs_of_the_page_run(kafka, state, spark, secure, monkeypatch):
    monkeypatch.setenv("PENSTOCK_KAFKA_SERVERS", kafka.servers)
    monkeypatch.setenv("KAFKA_CA", str(secure.certificate))
    monkeypatch.setenv("KAFKA_PASSWORD", "not-a-secret")
    scope: dict[str, Any] = {}
    for program in PROGRAMS:
        exec(program, scope)
    kafka.create("orders", 2)
    kafka.create("discounts")
    kafka.put("orders", {"item": "tea", "price": 2.5, "at": at(1)}, key="ann")
    kafka.put("orders", {"item": "tea", "price": 2.0, "at": at(2)}, key="bob", partition=1)
    with running(scope["app"], state, spark, Clock()) as run:
        assert asked(run, "SELECT item, orders, customers, total FROM sales") == [("tea", 2, 2, 4.5)]
    (message,) = kafka.read("sales")
    assert json.loads(message.key()) == {"item": "tea"}
    assert json.loads(message.value())["total"] == 4.5
    assert {name for name, _ in message.headers()} == {
        "view", "kind", "timing", "index", "final", "pane", "commit",
    }  # fmt: skip
    assert kafka.group("shop", "orders", 2) == {0: 1, 1: 1}
    assert dict(scope["log"].options) == dict(secure.options)


def test_the_program_of_the_page_on_the_low_latency_lane_runs(kafka, state, spark, monkeypatch):
    monkeypatch.setenv("PENSTOCK_KAFKA_SERVERS", kafka.servers)
    text = (Path(__file__).parents[2] / "docs" / "realtime.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(program, scope)
    written = ps.App("shop")
    for statement in sql.parse(re.findall(r"```sql\n(.*?)```", text, re.DOTALL)[0]):
        sql.define(written, statement)
    assert {n: (f, s) for n, (_, f, s) in written.sinks.items()} == {
        n: (f, s) for n, (_, f, s) in scope["app"].sinks.items()
    }
    kafka.create("payments")
    kafka.create("suspicious")
    kafka.put("payments", *({"card": "c", "amount": n, "country": "US", "at": at(n / 1000)} for n in (500, 1500)))
    with running(scope["app"], state, spark, Clock()) as run:
        assert asked(run, "SELECT sum(n) FROM by_country") == [(2,)]
        (row,) = wait_for(kafka, "suspicious", 1, run)
    assert row == {"card": "c", "amount": "1500.00", "at": at(1.5)}
