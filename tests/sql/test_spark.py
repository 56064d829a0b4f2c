"""A script on Spark: expressions outside the kernel's subset, and the same panes as on the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import sql
from penstock.engine.script import OnSpark
from penstock.model.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = """
    CREATE STREAM visits (page STRING, user STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
    CREATE CONTINUOUS VIEW by_sound AS
      SELECT soundex(page) AS sound, window_start, window_end, count(*) AS n, sum(length(user)) / count(*) AS mean
      FROM TUMBLE(visits, at, INTERVAL 1 MINUTE)
      GROUP BY soundex(page), window_start, window_end
      EMIT EARLY EACH ON TIME RETRACTING;
    INSERT INTO visits VALUES ('home', 'ann', '12:00:10'), ('hohm', 'robert', '12:00:40');
    ASSERT PANES OF by_sound (sound, n, mean, timing) EQUALS ('H500', 2, 4.5, 'early');
    ADVANCE WATERMARK TO '12:01:00';
    ASSERT PANES OF by_sound (n, kind, timing) EQUALS (2, 'retract', 'on time'), (2, 'insert', 'on time');
    ASSERT (SELECT n FROM by_sound WHERE final) EQUALS (2)
"""


def test_a_script_runs_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(play: sql.Play, view: View) -> OnSpark:
        return OnSpark(view, spark, tmp_path)

    monkeypatch.setattr(sql.Play, "start", start)
    report = sql.Script.of(SCRIPT).run("spark")
    assert [str(error) for error in report.tests.values() if error] == []
    assert report.assertions == 3


def test_without_spark_it_is_refused() -> None:
    (error,) = sql.Script.of(SCRIPT).run().tests.values()
    assert "the function soundex is outside the kernel" in str(error)
