"""Alerts where people look: the API, metrics, the dashboard and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.app import App
from penstock.cli import cli
from penstock.model.placement import Placement
from penstock.runtime.script import OnEngine
from penstock.serve.dashboard.alerts import key_rows
from penstock.serve.server import Server
from penstock.serve.settings import Settings
from penstock.testing import TestStream, replay
from tests.serve.test_dashboard_snapshot import read

POSTS = ps.stream(
    "posts", schema="tag string, likes int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"),
    log=ps.http("posts"), max_ahead=None,
)  # fmt: skip


@pytest.fixture(params=["store", "segments"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An app in which 'x' fires and 'y' is resolved. The engine calls the view that it runs 'view'."""
    app = App("trending")
    app.take_stream(POSTS)
    view = app.view("by_tag", POSTS.group_by("tag").window(ps.fixed("10 seconds")).agg(posts=ps.count()))
    hot = app.alert(view, "posts > 1", to=ps.to_jsonl(str(tmp_path / "alerts")), name="view")
    script = (
        TestStream(POSTS)
        .add(
            ("x", 1, "12:00:01"), ("x", 2, "12:00:02"), ("y", 1, "12:00:03"), ("y", 1, "12:00:04"), ("z", 1, "12:00:05")
        )
        .add(("x", 1, "12:00:11"), ("x", 2, "12:00:12"), ("y", 1, "12:00:13"))
        .watermark("12:00:20")
    )
    placement = Placement("sharded", 2) if request.param == "segments" else Placement()
    runner = OnEngine(hot.view, tmp_path / "state", placement)
    replay(hot.view, script, runner)
    runner.store.note_graph(app.graph().to_json())
    yield runner.directory
    runner.store.close()


def test_the_api_and_metrics_have_alerts(directory: Path):
    with Server(directory, Settings(port=0)) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        (alert,) = client.get("/api/v1/alerts").json()
        assert (alert["name"], alert["view"], alert["when"], alert["firing"]) == ("view", "by_tag", "posts > 1", 1)
        assert [(row["tag"], row["state"], row["posts"]) for row in alert["rows"]] == [
            ("x", "firing", 2), ("y", "resolved", None),
        ]  # fmt: skip
        assert alert["rows"][0]["since"].endswith("Z")
        assert client.get("/api/v1/alerts", params={"what": "else"}).status_code == 422
        metrics = client.get("/metrics").text
    assert 'penstock_alert_firing{alert="view"} 1.0' in metrics
    assert 'penstock_alert_changes_total{alert="view"} 3.0' in metrics


def test_the_dashboard_shows_which_keys_fire(directory: Path):
    now = read(directory)
    assert [(one.definition.name, one.firing) for one in now.alerts] == [("view", 1)]
    rows = key_rows(now.alerts)
    assert [(row["c0"], row["c1"], row["c2"], row["c5"]) for row in rows] == [
        ("view", "x", "firing", "posts 2"), ("view", "y", "resolved", ""),
    ]  # fmt: skip


def test_the_command_line_lists_what_fires(directory: Path):
    def listed(*options: str) -> list[dict[str, str]]:
        done = CliRunner().invoke(cli, ["alert", "list", "--dir", str(directory), "--format", "json", *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    (row,) = listed()
    assert (row["alert"], row["key"], row["state"]) == ("view", "x", "firing")
    assert json.loads(row["values"]) == {"posts": 2}
    assert [row["key"] for row in listed("--all")] == ["x", "y"]


def test_the_command_line_says_where_there_is_none(filled):
    done = CliRunner().invoke(cli, ["alert", "list", "--dir", str(filled.directory)])
    assert (done.exit_code, "app.alert" in done.stdout) == (0, True)


def test_an_app_shows_its_alerts_in_its_graph_and_refuses_names_that_are_taken():
    app = App("trending")
    app.take_stream(POSTS)
    view = app.view("by_tag", POSTS.group_by("tag").agg(posts=ps.count()))
    made = app.alert("by_tag", ps.col("posts") > 1, to=[ps.to_console(), ps.to_jsonl("alerts")])
    assert (made.name, made.of, made.view) == ("by_tag_alert", "by_tag", app.views["by_tag_alert"])
    assert sorted(app.sinks) == ["by_tag_alert_to", "by_tag_alert_to_2"]
    (known,) = app.graph().alerts
    assert (known.name, known.of) == ("by_tag_alert", "by_tag")
    assert "alert by_tag_alert_changes ← by_tag" in app.explain()
    with pytest.raises(ps.DefinitionError, match="already"):
        app.alert(view, "posts > 2")
    with pytest.raises(ps.DefinitionError, match="has no view 'nothing'"):
        app.alert("nothing", "posts > 2")
    with pytest.raises(ps.DefinitionError, match="not a sink"):
        app.alert(view, "posts > 2", to=["somebody"], name="other")  # type: ignore[list-item]
    assert list(app.alerts) == ["by_tag_alert"]
