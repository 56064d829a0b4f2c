"""Metrics, health, logs: what those who run a server look at."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.serve.logging import JsonLines
from penstock.serve.server import Server
from penstock.serve.service import Host
from penstock.serve.settings import Settings
from tests.browser.live import LiveApp

DASHBOARD = Path(__file__).parents[2] / "grafana" / "penstock.json"


def metrics(client: httpx.Client) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_metrics_tell_what_the_store_holds(serving: Callable[..., Server], filled):
    filled.commit(("x", 1, 30), watermark=20)
    filled.store.delivered({"out": 2})
    server = serving(Host(failures=lambda: {"out": 3}))
    with httpx.Client(base_url=server.url) as client:
        client.get("/api/v1/views/trending")
        client.post("/api/v1/streams/posts", content=b'{"tag":"a"}', headers={"Content-Type": "application/x-ndjson"})
        found = metrics(client)
    assert found["penstock_events_total"] == {("posts",): 7}
    assert found["penstock_refused_total"] == {("late", "posts"): 0}
    assert found["penstock_commits_total"][()] == 2
    assert found["penstock_epoch_seconds"] == {("reduce", "posts"): 0.5, ("merge", "posts"): 0.25}
    assert found["penstock_view_watermark_seconds"][("trending",)] == 1_714_564_820
    assert found["penstock_view_lag_seconds"][("trending",)] > 0
    assert found["penstock_sink_position"] == {("out",): 2}
    assert found["penstock_sink_failures"] == {("out",): 3}
    assert found["penstock_http_requests_total"][("GET", "/api/v1/views/{name}", "200")] == 1
    assert found["penstock_ingest_events_total"] == {("posts",): 1}


def test_metrics_tell_how_fresh_views_and_sinks_are(tmp_path: Path):
    live = LiveApp(tmp_path)
    live.commit()
    with Server(tmp_path, Settings(port=0)) as server, httpx.Client(base_url=server.url) as client:
        found = metrics(client)
    live.store.close()
    fresh, delivered = found["penstock_view_freshness_seconds"], found["penstock_sink_freshness_seconds"]
    assert set(fresh) == {(quantile, view) for view in live.app.views for quantile in ("0.5", "0.99")}
    assert 0.12 < fresh["0.5", "totals"] < fresh["0.99", "totals"] < 10
    assert set(delivered) == {("0.5", "trending_jsonl"), ("0.99", "trending_jsonl")}
    assert delivered["0.5", "trending_jsonl"] > fresh["0.5", "trending"]


def test_the_dashboard_shows_metrics_that_there_are(serving: Callable[..., Server], filled):
    filled.commit(("x", 1, 30), watermark=20)
    filled.store.delivered({"out": 2})
    server = serving(Host(failures=lambda: {"out": 0}))
    with httpx.Client(base_url=server.url) as client:
        client.post("/api/v1/streams/posts", content=b'{"tag":"a"}', headers={"Content-Type": "application/x-ndjson"})
        client.get("/health")
        text = client.get("/metrics").text
    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    there |= {f"{name}{end}" for name in there for end in ("_bucket", "_sum", "_count")}
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(asked) >= 10
    named = {name for expression in asked for name in re.findall(r"penstock_\w+", expression)}
    assert named - there == set()
    assert {name for name in there if name.startswith("penstock_")} >= named


def test_health_is_that_of_the_server_and_readiness_that_of_the_app(serving: Callable[..., Server]):
    why: list[str] = []
    server = serving(Host(failed=lambda: why[0] if why else None))
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/ready").status_code == 200
        why.append("the log is gone")
        assert client.get("/ready").status_code == 503
        assert client.get("/health").json() == {"status": "ok"}


def test_an_app_that_is_stopped_is_not_ready_and_its_views_are_answered(filled, serving: Callable[..., Server]):
    with httpx.Client(base_url=serving().url) as client:
        assert client.get("/ready").status_code == 200
        filled.close()
        answer = client.get("/ready")
        assert (answer.status_code, answer.json()["error"]) == (503, "the app is stopped")
        assert "penstock run" in answer.json()["hint"]
        assert client.get("/health").status_code == 200
        assert client.get("/api/v1/views/trending").status_code == 200


def test_a_server_waits_for_a_store_that_is_not_there_yet(tmp_path: Path):
    with Server(tmp_path, Settings(port=0)) as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/health").status_code == 200
        for path in ("/ready", "/api/v1/views", "/metrics", "/api/v1/views/x/subscribe"):
            assert client.get(path).status_code == 503


def test_a_line_of_the_log_is_json_with_what_was_asked(client: httpx.Client, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "penstock.access"):
        client.get("/api/v1/views/trending", params={"key.tag": "private"})
        client.get("/health")
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == "penstock.access"]
    assert (lines[0]["method"], lines[0]["route"], lines[0]["status"]) == ("GET", "/api/v1/views/{name}", 200)
    assert "private" not in json.dumps(lines)


def test_answers_are_sent_at_once(serving: Callable[..., Server]):
    """Where the protocol of a socket is not named, asyncio leaves small answers waiting for the other side."""
    assert serving()._socket.proto == socket.IPPROTO_TCP
