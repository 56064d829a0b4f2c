"""Files that Spark makes on this machine: their modes are set without a process for each."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from penstock.runtime.spark.local_files import spare_processes


def test_java_sets_the_modes_of_local_files_itself(spark, tmp_path: Path):
    spare_processes(spark.sparkContext).join()
    java: Any = spark.sparkContext
    path = java._jvm.org.apache.hadoop.fs.Path((tmp_path / "folder" / "file").as_uri())
    files = path.getFileSystem(java._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "penstock.LocalFiles"
    files.create(path).close()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "folder" / "file").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o777 & ~umask
    kinds = java._jvm.org.apache.hadoop.fs.permission
    files.setPermission(path, kinds.FsPermission("640"))
    assert stat.S_IMODE((tmp_path / "folder" / "file").stat().st_mode) == 0o640
    assert files.getFileStatus(path).getPermission().toString() == "rw-r-----"
