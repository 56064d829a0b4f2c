"""A directory of files: CSV has its columns by place, whatever of them is needed; a view may need none."""

from __future__ import annotations

import polars as pl
import pytest

import penstock as ps
from penstock.app import App

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize("header", [False, True])
def test_csv_has_its_columns_by_place_whatever_is_needed(header, tmp_path, spark):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(("n,page,ms\n" if header else "") + "1,/a,5\n2,/b,six\n3,/a,7\n")
    app = App("files")
    stream = app.stream(
        "visits", ps.files(tmp_path / "in", format="csv", header=header), schema="n int, page string, ms int"
    )
    app.view("by_page", stream.group_by("page").agg(ms=ps.sum("ms")))
    run = app.run(tmp_path / "state", spark=spark, tick=3600.0).start()
    try:
        run.catch_up()
        assert run.store.query("SELECT page, ms FROM by_page").rows() == [("/a", 12)]
        assert run.store.query("SELECT row FROM __refused").rows() == [("2,/b,six",)]
    finally:
        run.stop()


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_a_view_that_needs_no_column_counts_all_rows(format, tmp_path, spark):
    (tmp_path / "in").mkdir()
    rows, path = pl.DataFrame({"page": ["/a", "/b", "/a"], "ms": [1, 2, 3]}), tmp_path / "in" / f"a.{format}"
    if format == "parquet":
        rows.write_parquet(path)
    else:
        path.write_text(rows.write_ndjson() if format == "json" else rows.write_csv(include_header=False))
    app = App("files")
    stream = app.stream("visits", ps.files(tmp_path / "in", format=format), schema="page string, ms bigint")
    app.view("total", stream.group_by().agg(n=ps.count()))
    run = app.run(tmp_path / "state", spark=spark, tick=3600.0).start()
    try:
        run.catch_up()
        assert run.store.query("SELECT n FROM total").rows() == [(3,)]
    finally:
        run.stop()
