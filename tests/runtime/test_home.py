"""Spark beside its driver: its Python processes import the installed PySpark, and each gets its share of the keys."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from penstock.runtime.spark.home import fast_home


def test_a_home_has_what_java_needs_and_no_zip_file_of_pyspark(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    for _ in range(2):  # it is made once
        with fast_home():
            home = Path(os.environ["SPARK_HOME"])
            assert home.parent == tmp_path
            assert (home / "bin" / "spark-submit").exists()
            assert list((home / "jars").glob("spark-sql_*.jar"))
            assert not list(home.rglob("pyspark.zip"))
        assert "SPARK_HOME" not in os.environ
    assert len(list(tmp_path.iterdir())) == 1


def test_a_home_that_somebody_has_chosen_stays(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/somewhere")
    with fast_home():
        assert os.environ["SPARK_HOME"] == "/somewhere"
    assert os.environ["SPARK_HOME"] == "/somewhere"


def test_without_a_place_for_it_java_starts_as_ever(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file"))
    with fast_home():
        assert "SPARK_HOME" not in os.environ


def test_tasks_import_the_installed_package(spark):
    def where(batches):
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__]})

    (found,) = spark.range(1).mapInArrow(where, "place string").collect()
    assert found.place == pyspark.__file__
