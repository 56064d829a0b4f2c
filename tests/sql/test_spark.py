"""A script on Spark: expressions outside the kernel's subset, and the same panes as on the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.model.view import View
from penstock.runtime.script import OnSpark
from penstock.scripts import Play, Script

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
    def start(play: Play, view: View) -> OnSpark:
        return OnSpark(view, spark, tmp_path)

    monkeypatch.setattr(Play, "start", start)
    report = Script.of(SCRIPT).run("spark")
    assert [str(error) for error in report.tests.values() if error] == []
    assert report.assertions == 3


def test_without_spark_it_is_refused() -> None:
    (error,) = Script.of(SCRIPT).run().tests.values()
    assert "the function soundex is outside the kernel" in str(error)


TESTS = """
    CREATE STREAM l (k STRING, v INT, at TIMESTAMP, WATERMARK FOR at AS (at - INTERVAL 10 SECONDS));
    CREATE STREAM r (k STRING, w INT, at TIMESTAMP, WATERMARK FOR at AS (at - INTERVAL 10 SECONDS));
    CREATE STREAM m (k STRING, names MAP<STRING, INT>, one STRUCT<a: INT>);

    TEST 'streams of which one has an expression that only Spark evaluates are put together';
    CREATE STREAM both AS SELECT k, v FROM l UNION ALL SELECT soundex(k) AS k, w AS v FROM r;
    CREATE CONTINUOUS VIEW by_key AS SELECT k, count(*) AS n, sum(v) AS total FROM both GROUP BY k;
    INSERT INTO l VALUES ('x', 1, '12:00:00');
    INSERT INTO r VALUES ('Robert', 3, '12:00:00'), ('x', 4, '12:00:00');
    ASSERT by_key (k, n, total) EQUALS ('R163', 1, 3), ('X000', 1, 4), ('x', 1, 1);

    TEST 'a join of streams';
    CREATE STREAM j AS SELECT l.k AS k, r.w AS w FROM l JOIN r
      ON l.k = r.k AND r.at BETWEEN l.at AND l.at + INTERVAL 5 SECONDS;
    CREATE CONTINUOUS VIEW joined AS SELECT soundex(k) AS k, sum(w) AS total FROM j GROUP BY soundex(k);
    INSERT INTO l VALUES ('x', 1, '12:00:00'), ('y', 2, '12:00:01');
    INSERT INTO r VALUES ('x', 10, '12:00:02'), ('x', 20, '12:00:03');
    ASSERT joined (k, total) EQUALS ('X000', 30);

    TEST 'maps and structs';
    CREATE CONTINUOUS VIEW of_names AS SELECT k, sum(names['p']) AS p, max(one.a) AS a FROM m GROUP BY k;
    INSERT INTO m VALUES ('x', map('p', 1, 'q', 2), named_struct('a', 7)), ('y', NULL, NULL);
    ASSERT of_names (k, p, a) EQUALS ('x', 1, 7), ('y', NULL, NULL);

    TEST 'an expression that fails on a row';
    CREATE CONTINUOUS VIEW failing AS SELECT k, max(soundex(string(1 / (v - v)))) AS x FROM l GROUP BY k;
    INSERT INTO l VALUES ('x', 1, '12:00:00');
    ASSERT failing IS EMPTY;
    ASSERT DEAD OF failing (k) EQUALS ('x');

    TEST 'a function that is not there';
    CREATE CONTINUOUS VIEW unknown AS SELECT k, max(soundx(k)) AS x FROM l GROUP BY k;
    INSERT INTO l VALUES ('x', 1, '12:00:00');
    ASSERT unknown IS EMPTY;
"""


def test_each_test_of_a_script_stands_or_fails_for_itself(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Play, "start", lambda play, view: OnSpark(view, spark))
    errors = {name: str(error) for name, error in Script.of(TESTS).run("spark").tests.items() if error}
    assert list(errors) == ["a function that is not there"], errors
    missing = errors["a function that is not there"]
    assert "unknown function 'soundx' in 'soundx(k)'" in missing
    assert "did you mean soundex" in missing
    assert len(missing) < 600
    assert "UNRESOLVED_ROUTINE" not in capfd.readouterr().err
