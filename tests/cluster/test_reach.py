"""A directory that the executors do not share with the driver is refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runtime.errors import RunError
from penstock.runtime.spark.reach import Probe, check_reach


class Tasks:
    """Stands in for Spark: its tasks run here, on what a worker has where the driver has its directory."""

    def __init__(self, there: Path, here: Path) -> None:
        self._there, self._here = there, here

    def parallelize(self, numbers: range, tasks: int) -> Tasks:
        self._numbers = numbers
        return self

    def map(self, probe: Probe) -> Any:
        moved = Probe(probe.directory.replace(str(self._here), str(self._there)), probe.token)
        return SimpleNamespace(collect=lambda: [moved(number) for number in self._numbers])


def session(master: str, here: Path, there: Path) -> Any:
    tasks = Tasks(there, here)
    context = SimpleNamespace(master=master, defaultParallelism=2, parallelize=tasks.parallelize)
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize("is_shared", [True, False])
def test_executors_that_do_not_see_a_directory_are_named(tmp_path: Path, is_shared: bool):
    here, there = tmp_path / "driver", tmp_path / "worker"
    (there / "checkpoints").mkdir(parents=True)
    spark = session("spark://there:7077", here, here if is_shared else there)
    if is_shared:
        check_reach(spark, here / "checkpoints", "the state is kept there", "share it")
    else:
        with pytest.raises(RunError, match="the executors do not share the directory") as refused:
            check_reach(spark, here / "checkpoints", "the state is kept there", "share it")
        assert "does not see a file that the driver wrote" in str(refused.value.detail)
    assert not [*(here / "checkpoints").iterdir(), *(there / "checkpoints").iterdir()], "nothing is left behind"


def test_in_one_process_nothing_is_tried(tmp_path: Path):
    check_reach(session("local[2]", tmp_path, tmp_path), tmp_path / "not made", "", "")
    assert not (tmp_path / "not made").exists()
