"""The programs of docs/kafka.md do what the page says, on a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.kafka.support import Clock, asked, at, running

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
