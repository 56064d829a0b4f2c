"""Batch, replay, replace, rollback and audit on Spark, of a view whose state is in segments."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import penstock as ps
from penstock.history.batch.audit import Audit
from penstock.history.batch.log_past import From
from penstock.history.batch.runs import batch, replace, replay, rollback
from penstock.state.layout import FINAL, layouts
from penstock.state.segment import SegmentFile, encoded
from penstock.state.segment_state import presented
from penstock.state.sweep import sweep_orphans
from tests.runtime.test_generations import LATE, make, put, started
from tests.store.sharded import table

COLUMNS = ("page", "n", "ms", "final")
LIVE = [("/a", 1, 1, 1), ("/a", 1, 2, 0), ("/b", 1, 8, 0)]
IN_TIME = [("/a", 1, 2, 0), ("/a", 2, 5, 1), ("/b", 1, 8, 0)]


def rows(run, *columns: str) -> list[tuple]:
    return sorted(table(run.store, "by_page").select(columns or COLUMNS).rows())


def audited(run, app):
    return Audit(run.spark, run.store, app.streams, app.views, run.history).run("by_page")


def spoil(run) -> None:
    """One row has another value than its events give."""
    view = run.store.sharded("by_page")
    row = view.state().whole().filter(FINAL).with_columns(pl.col("n") + 1).head(1)
    file = SegmentFile(view.root, "1-spoilt.arrow")
    file.add(encoded("by_page", layouts(view.plan)["rows"], view.next_run, presented(view.plan, row, final=True)))
    assert run.store.replace_segments("by_page", [], file.close(), run.now())


def test_runs_from_the_past_and_audits_work_on_views_in_segments(tmp_path: Path, spark):
    (tmp_path / "in").mkdir()
    app, stream = make(tmp_path)
    run = started(app, tmp_path, spark)
    try:
        for number, some in enumerate(LATE):
            put(tmp_path, f"f{number}", some)
            run.catch_up()
        run.store.shard("by_page", 4)
        assert rows(run) == LIVE
        found = audited(run, app)
        assert (found.unable, found.differences, found.rows) == (None, 0, 3)

        (outcome,) = batch(run, ["by_page"], part_rows=2)
        assert (outcome.rows, rows(run)) == (4, IN_TIME)
        found = audited(run, app)
        assert (found.unable, found.differences, found.rows) == (None, 0, 3)

        other = stream.where("ms < 5").group_by("page").window(ps.fixed("10 seconds")).agg(
            n=ps.count(), ms=ps.sum("ms")
        )  # fmt: skip
        dry = replace(run, "by_page", other, dry=10).difference
        assert (dry.appear, dry.vanish, dry.change) == (0, 1, 0)
        assert rows(run) == IN_TIME
        replace(run, "by_page", other)
        assert rows(run) == IN_TIME[:2]
        rollback(run, "by_page")
        assert rows(run) == IN_TIME

        spoil(run)
        found = audited(run, app)
        assert (found.differences, found.shown[0].values) == (1, {"n": (3, 2)})
        (outcome,) = replay(run, "visits", From(), "by_page")
        assert rows(run) == IN_TIME
        assert not run.store.generation_writes()
        assert sweep_orphans(run.store, frozenset) == 0
    finally:
        run.stop()
