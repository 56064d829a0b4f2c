"""How Java is started, and that it ends with the process that has started it, whatever it does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.runtime.spark.session import _end_java, _environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.mark.xdist_group("runtime")
def test_java_has_few_heaps(spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert spark._jvm.System.getenv("MALLOC_ARENA_MAX") == os.environ.get("MALLOC_ARENA_MAX", "2")


def test_what_somebody_has_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "by somebody")
    monkeypatch.delenv("UNSET", raising=False)
    with _environment(SET="by us", UNSET="by us"):
        assert (os.environ["SET"], os.environ["UNSET"]) == ("by somebody", "by us")
    assert os.environ["SET"] == "by somebody"
    assert "UNSET" not in os.environ
