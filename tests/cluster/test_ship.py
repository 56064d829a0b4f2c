"""What goes along to a cluster, and what an app is given there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.run import settings
from penstock.errors import PenstockError
from penstock.runtime.spark.masters import cluster_settings, is_local, reach
from penstock.runtime.spark.shipping import packed


def test_penstock_itself_is_packed_once(tmp_path: Path):
    (archive,) = packed()
    assert packed() == [archive]
    code = "import penstock.kernel.reduce; print(penstock.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert said.stdout.startswith(str(archive))


def test_modules_and_packages_beside_an_app_go_along_and_nothing_else(tmp_path: Path):
    for name in ("app.py", "beside.py", "inner/__init__.py", "inner/deep/more.py", "data/big.csv", "venv/lib/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "inner" / "__pycache__").mkdir()
    (tmp_path / "inner" / "__pycache__" / "x.pyc").write_text("")
    first = packed([tmp_path, tmp_path])
    assert len(first) == 2
    from zipfile import ZipFile

    assert sorted(ZipFile(first[1]).namelist()) == ["app.py", "beside.py", "inner/__init__.py", "inner/deep/more.py"]
    (tmp_path / "beside.py").write_text("x = 1")
    assert packed([tmp_path])[1] != first[1]


def test_only_clusters_speculate():
    assert is_local("local")
    assert not is_local("local-cluster[2,1,1024]")
    assert cluster_settings("yarn")["spark.speculation"] == "true"
    assert cluster_settings("yarn")["spark.executorEnv.MALLOC_ARENA_MAX"] == "2"
    assert "spark.driver.host" not in cluster_settings("spark://master:7077")
    assert cluster_settings("spark://localhost:7077")["spark.driver.host"] == "127.0.0.1"


def test_an_address_that_is_none_is_told():
    with pytest.raises(PenstockError, match="not the address of a Spark master: 'spark://here'"):
        reach("spark://here")


def test_settings_on_the_command_line_are_those_of_spark():
    with pytest.raises(Exception, match="not a setting of Spark's: 'memory=2g'"):
        settings(["memory=2g"])
