"""Alerts on Spark: rows reach the sink once, what fires survives restarts, and shells make and drop them."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.control.live import Live
from penstock.errors import PenstockError
from penstock.sinks import read_jsonl
from tests.control.support import BY_PAGE, Clock, put, started

ALERT = "CREATE ALERT busy FROM by_page WHEN n > 2 INTO FILES '{folder}'"


def states(live: Live, name: str = "busy") -> dict[str, str]:
    return dict(live.store.query(f"SELECT page, state FROM {name}").iter_rows())


def delivered(live: Live, folder: Path) -> list[tuple[object, ...]]:
    assert live.run.delivery.drain()
    return [(row["page"], row["state"], row["number"], row["n"]) for row in read_jsonl(folder)]


def windowed(root: Path) -> App:
    """Visits by page and minute, with an alert on more than one."""
    (root / "in").mkdir(exist_ok=True)
    app = App("shop")
    visits = app.stream(
        "visits", ps.files(root / "in"), schema="page string, user string, ms int, at timestamp", event_time="at",
        watermark=ps.bounded("0 seconds"),
    )  # fmt: skip
    view = app.view("by_minute", visits.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count()))
    app.alert(view, "n > 1", to=ps.to_jsonl(root / "alerts"), name="busy")
    return app


def test_each_change_is_delivered_once_and_what_fires_survives_restarts(tmp_path: Path, spark) -> None:
    def live() -> Live:
        return Live(windowed(tmp_path), tmp_path / "state", spark=spark, tick=3600.0, clock=Clock()).start()

    first = live()
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 1, 1), ("/b", "u", 1, 2), ("/c", "u", 1, 61))
        first.catch_up()
        assert states(first) == {"/a": "firing"}
        assert delivered(first, tmp_path / "alerts") == [("/a", "firing", 1, 2)]
    finally:
        first.stop()
    again = live()
    try:
        assert states(again) == {"/a": "firing"}
        put(tmp_path, "b", ("/a", "u", 1, 62), ("/a", "u", 1, 63), ("/c", "u", 1, 121))
        again.catch_up()  # the next minute holds too: nothing changes
        assert delivered(again, tmp_path / "alerts") == [("/a", "firing", 1, 2)]
        put(tmp_path, "c", ("/c", "u", 1, 200))
        again.catch_up()
        assert states(again) == {"/a": "resolved"}
        assert delivered(again, tmp_path / "alerts") == [("/a", "firing", 1, 2), ("/a", "resolved", 2, None)]
        assert again.store.counters()["busy_changes.events"] == 2
    finally:
        again.stop()


def test_a_shell_makes_an_alert_which_is_there_after_a_restart_until_it_is_dropped(tmp_path: Path, spark) -> None:
    live = started(tmp_path, spark, BY_PAGE)
    try:
        put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 1, 1), ("/b", "u", 1, 2))
        live.catch_up()
        assert "alert 'busy' created" in live.execute(ALERT.format(folder=tmp_path / "alerts")).message
        assert live.execute("SHOW ALERTS").rows == (("busy", "by_page", "n > 2"),)
        with pytest.raises(PenstockError, match="watches 'by_page'"):
            live.execute("DROP VIEW by_page")
        put(tmp_path, "b", ("/a", "u", 1, 3))
        live.catch_up()
        assert states(live) == {"/a": "firing"}
        assert delivered(live, tmp_path / "alerts") == [("/a", "firing", 1, 3)]
    finally:
        live.stop()
    live = started(tmp_path, spark, BY_PAGE)
    try:
        assert live.warnings == []
        assert states(live) == {"/a": "firing"}
        put(tmp_path, "c", ("/b", "u", 1, 4), ("/b", "u", 1, 5))
        live.catch_up()
        assert states(live) == {"/a": "firing", "/b": "firing"}
        assert delivered(live, tmp_path / "alerts") == [("/a", "firing", 1, 3), ("/b", "firing", 1, 3)]
        assert live.execute("DROP ALERT busy").message.startswith("alert 'busy' dropped")
        assert live.execute("SHOW ALERTS").rows == ()
        assert "busy" not in live.store.views()
    finally:
        live.stop()
