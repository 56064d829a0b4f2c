"""The example telco_heat_map: its view is what DuckDB makes of the same files, and its picture is drawn."""

from __future__ import annotations

import runpy
from pathlib import Path

import duckdb

EXAMPLE = Path(__file__).parents[2] / "examples" / "telco_heat_map"
ASKED = """
    SELECT c.x, c.y, count(*), count(*) FILTER (WHERE c.dropped)
    FROM read_json('{0}/calls/*.json') c ASOF JOIN read_parquet('{0}/subscribers/*.parquet') s
      ON c.subscriber = s.id AND c.at::TIMESTAMPTZ >= s.since
    WHERE s.tier = 'premium' GROUP BY ALL ORDER BY ALL
"""


def test_the_heat_map_is_what_duckdb_makes_of_the_same_files(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE / "make.py"))["make"](tmp_path, subscribers=3_000, calls=4_000, files=2)
    run = runpy.run_path(str(EXAMPLE / "app.py"))["app"].start(tmp_path / "state", spark=spark)
    try:
        run.catch_up()
        asked = "SELECT x, y, sum(calls), sum(dropped) FROM heat_map GROUP BY x, y ORDER BY x, y"
        found = run.store.query(asked).rows()
    finally:
        run.stop()
    assert found == duckdb.sql(ASKED.format(tmp_path)).fetchall()
    picture = runpy.run_path(str(EXAMPLE / "picture.py"))
    picture["draw"](picture["stored"](tmp_path / "state"), tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size > 1_000
