"""`app.run()` and `app.start()` do what `penstock run` does: batch runs, audits, back-fills, shells and serving."""

from __future__ import annotations

import inspect
import json
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.control import Client
from penstock.dataflow.graph import graph_from_json
from penstock.model.view import View
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from penstock.sql import define, parse_one
from penstock.start import RunOptions
from penstock.store.operator_timings import LATEST_DETAILS, latest_timings
from penstock.store.spark_work import SparkWork, latest_work
from tests.control.support import STREAM, put


def shop(root: Path) -> tuple[App, View]:
    (root / "in").mkdir(exist_ok=True)
    app = App("shop")
    define(app, parse_one(STREAM.format(folder=root / "in")))
    return app, app.streams["visits"].group_by("page").agg(n=ps.count())


def begun(app: App, root: Path, spark: object) -> Run:
    return app.start(root / "state", spark=spark, tick=3600.0)


def wait_for(run: Run, table: str, rule: str) -> None:
    """Until a table of the store is there, and has such a row."""
    while not run.store.query("SELECT 1 FROM sqlite_schema WHERE name = ?1", [table]).height:
        run.wait(0.05)
    while not run.store.query(f"SELECT 1 FROM {table} WHERE {rule}").height:
        run.wait(0.05)


def test_an_app_run_from_python_computes_and_audits_its_views_as_often_as_they_say(tmp_path: Path, spark) -> None:
    app, view = shop(tmp_path)
    app.view("by_page", view, batch="1 second", audit="1 second")
    put(tmp_path, "a", ("/a", "u", 1, 0), ("/b", "u", 1, 1))
    run = begun(app, tmp_path, spark)
    try:
        run.catch_up()
        wait_for(run, "__generations", "view = 'by_page' AND kind = 'batch'")
        wait_for(run, "__audits", "view = 'by_page' AND unable IS NULL AND differences = 0")
    finally:
        run.stop()


def test_a_view_that_is_new_to_the_store_begins_with_its_history_unless_it_says_otherwise(
    tmp_path: Path, spark
) -> None:
    app, view = shop(tmp_path)
    app.view("by_page", view)
    put(tmp_path, "a", ("/a", "u", 1, 0), ("/a", "u", 1, 1))
    run = begun(app, tmp_path, spark)
    try:
        run.catch_up()
        shell = Client(tmp_path / "state")
        assert shell.ask("SHOW VIEWS").rows[0][0] == "by_page", "shells find it"
        shell.ask("CREATE CONTINUOUS VIEW by_user AS SELECT user, count(*) AS n FROM visits GROUP BY user")
        shell.close()
    finally:
        run.stop()
    assert list(app.views) == ["by_page"], "what shells add is not added to the app of the program"
    app.view("filled", view)
    app.view("from_now", view, backfill=False)
    put(tmp_path, "b", ("/a", "u", 1, 2))
    run = begun(app, tmp_path, spark)
    try:
        run.catch_up()
        counts = {name: run.store.query(f"SELECT sum(n) FROM {name}").item() for name in sorted(run.store.views())}
        assert counts == {"by_page": 3, "by_user": 3, "filled": 3, "from_now": 1}
    finally:
        run.stop()


def test_a_run_notes_its_graph_and_the_steps_of_its_operators(spark, tmp_path: Path) -> None:
    app = App("ads")
    for name in ("clicks", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text('{"ad": 1, "at": "2024-05-01T12:00:00Z"}\n')
    time = {"event_time": "at", "watermark": ps.bounded("1 second")}
    clicks, shown = (
        app.stream(name, ps.files(tmp_path / name), schema="ad bigint, at timestamp", **time)
        for name in ("clicks", "shown")
    )
    pairs = app.join(
        "pairs", clicks, shown, on="ad = ad", within=("-1 hour", "1 hour"), prefix="shown_", event_time="at"
    )
    app.view("by_ad", pairs.group_by("ad").agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        noted = run.store.query("SELECT statement FROM __catalog WHERE kind = 'graph'").item()
        assert graph_from_json(noted) == app.graph()
        timing = latest_timings(run.store.query(LATEST_DETAILS)["details"])["pairs"]
        assert timing.seconds > 0
        assert timing.jobs == 0  # few rows: the driver did it
        assert latest_work(run.store.query(LATEST_DETAILS)["details"])["clicks"] == SparkWork(1, 1)  # of reading
    finally:
        run.stop()


def test_a_run_is_a_context_manager_that_is_started_once_and_can_be_served(tmp_path: Path, spark) -> None:
    app, view = shop(tmp_path)
    app.view("by_page", view)
    put(tmp_path, "a", ("/a", "u", 1, 0))
    with app.start(tmp_path / "state", spark=spark, serve=0, tick=timedelta(hours=1)) as run:
        assert isinstance(run, ps.Run)
        with pytest.raises(RunError, match=r"leave out \.start\(\)"):
            run.start()
        run.catch_up()
        with urllib.request.urlopen(f"{run.url}/api/v1/views") as answer:
            assert "by_page" in json.dumps(json.load(answer))
        assert_reads(run)
    assert run.url is None
    run.stop()  # nothing is left to stop
    app.run(tmp_path / "state", spark=spark, serve=False, until_caught_up=True, drain=True)
    with app.start(tmp_path / "state", spark=spark) as run:
        assert run.drained == ["visits"]


def assert_reads(run: Run) -> None:
    """The rows of a view come in each form, and notebooks show them."""
    by_page = run.view("by_page")
    assert by_page.to_polars().select("page", "n").rows() == [("/a", 1)]
    assert by_page.to_arrow().column("n").to_pylist() == [1]
    assert by_page.to_pandas()["page"].tolist() == ["/a"]
    assert run.query("SELECT max(n) AS n FROM by_page WHERE page = :page", {"page": "/a"}).item() == 1
    assert run.query("SELECT n FROM by_page WHERE page = ?", ["/z"]).is_empty()
    shown = by_page._repr_html_()
    assert shown.startswith("<table><caption>by_page</caption>")
    assert "<td>/a</td>" in shown
    assert "shop: running" in run._repr_html_()
    assert str(run.url) in run._repr_html_()
    with pytest.raises(ps.PenstockError, match="by_page"):
        run.view("by_pag").to_polars()


def test_the_block_of_a_run_raises_what_has_ended_it_and_gives_the_lock_back(tmp_path: Path, spark) -> None:
    app, view = shop(tmp_path)
    app.view("by_page", view)

    def broken() -> None:
        raise RunError("broken")

    with pytest.raises(RunError, match="broken"), app.start(tmp_path / "state", spark=spark) as run:
        run.lanes.check = broken  # type: ignore[method-assign]
    app.start(tmp_path / "state", spark=spark).stop()


def test_the_old_spelling_is_an_error_that_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ps.PenstockError, match=r"write app\.start\(…\)"):
        App("shop").run(tmp_path / "state", tick=1.0).start()  # type: ignore[func-returns-value]
    assert not (tmp_path / "state").exists()


def test_options_are_checked_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ps.PenstockError, match="did you mean 'target'"):
        App("shop").start(tmp_path, traget="1 second")  # type: ignore[call-arg]
    with pytest.raises(ps.PenstockError, match="until_caught_up=True too"):
        App("shop").run(tmp_path, drain=True)
    with pytest.raises(ps.PenstockError, match="has no unit"):
        App("shop").run(tmp_path, stop_after=10)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_options_of_an_app_are_those_of_its_run() -> None:
    internal = {"self", "name", "streams", "views", "directory", "sinks", "resting", "companion", "placements"}
    of_run = {*inspect.signature(Run.__init__).parameters} - internal - {"phases"}
    assert RunOptions.__annotations__.keys() == of_run | {"apply"}
