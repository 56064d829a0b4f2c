"""How Java is started, that it ends with the process that has started it, and that sessions are left as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock as ps
from penstock.runtime.spark.session import _end_java, _environment
from tests.conftest import need_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Its threads call Java when the process ends.
CALLS_UNTIL_THE_END = """
import contextlib
import threading

from penstock.runtime.spark.session import spark_session

session = spark_session("calls", master="local[1]")
called = threading.Barrier(9)

def call():
    system = session._jvm.System
    system.nanoTime()
    called.wait()
    with contextlib.suppress(Exception):
        while True:
            system.nanoTime()

for _ in range(8):
    threading.Thread(target=call, daemon=True).start()
called.wait()
print("called")
"""


@pytest.fixture(params=["cat", "cat; sleep 600"], ids=["ends", "hangs"])
def java(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """Stands for Java, which ends when its input does, or does not."""
    started = subprocess.Popen(["sh", "-c", request.param], stdin=subprocess.PIPE, start_new_session=True)
    yield started
    started.kill()
    started.wait()


def test_java_ends_with_us_even_if_it_hangs(java: subprocess.Popen[bytes]) -> None:
    _end_java(java, os.getpid(), seconds=0.5)
    assert java.poll() is not None
    _end_java(java, os.getpid())  # and again, to no effect


def test_a_child_of_ours_leaves_it_alone(java: subprocess.Popen[bytes]) -> None:
    _end_java(java, os.getpid() + 1)
    assert java.poll() is None


def test_calls_under_way_at_the_end_of_the_process_are_not_reported(tmp_path: Path) -> None:
    need_spark()
    program = tmp_path / "program.py"
    program.write_text(CALLS_UNTIL_THE_END)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "called\n")
    assert "Traceback" not in done.stderr


@pytest.mark.xdist_group("runtime")
def test_java_has_few_heaps(spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert spark._jvm.System.getenv("MALLOC_ARENA_MAX") == os.environ.get("MALLOC_ARENA_MAX", "2")


@pytest.mark.xdist_group("runtime")
def test_settings_of_queries_do_not_reach_the_session_that_they_were_given(spark: SparkSession, tmp_path: Path) -> None:
    before = settings(spark)
    app = ps.App("apart")
    for name in ("ads", "clicks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text(json.dumps({"ad": 1, "at": "2024-05-01 12:00:00"}) + "\n")
    ads, clicks = (
        app.stream(
            name, ps.files(tmp_path / name), schema="ad int, at timestamp", event_time="at",
            watermark=ps.bounded("0 seconds"),
        )
        for name in ("ads", "clicks")
    )  # fmt: skip
    joined = app.join("matched", ads, clicks, on="ad", within=("0 seconds", "1 minute"), prefix="click_")
    app.view("by_ad", joined.group_by("ad").agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=0.05)
    try:
        run.catch_up()
        assert run.store.query("SELECT ad, n FROM by_ad").rows() == [(1, 1)]
    finally:
        run.stop()
    assert settings(spark) == before


def settings(spark: SparkSession) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql("SET").collect()}


def test_what_somebody_has_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "by somebody")
    monkeypatch.delenv("UNSET", raising=False)
    with _environment(SET="by us", UNSET="by us"):
        assert (os.environ["SET"], os.environ["UNSET"]) == ("by somebody", "by us")
    assert os.environ["SET"] == "by somebody"
    assert "UNSET" not in os.environ
