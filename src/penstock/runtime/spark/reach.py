"""Whether the executors of a cluster see the directories that the driver gives them, tried before anything is read.

The driver writes a file and the executors look for it; they write files too, and the driver looks for those.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.runtime.errors import RunError
from penstock.runtime.spark.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = ".reach-"
#: How many tasks per core check the directory: enough that every executor gets one.
_TASKS: Final = 2


@dataclass(frozen=True)
class Probe:
    """What a task does: it looks for the driver's file, and writes one of its own. It travels."""

    directory: str
    token: str

    def __call__(self, task: int) -> tuple[str, str | None]:
        """The executor's host, and what is wrong there."""
        host, directory = socket.gethostname(), Path(self.directory)
        try:
            if not (directory / f"{_PREFIX}{self.token}").exists():
                return host, "it does not see a file that the driver wrote there"
            (directory / f"{_PREFIX}{self.token}-{task}").write_text(host)
        except OSError as error:
            return host, f"it cannot write there: {error.strerror}"
        return host, None


def check_reach(spark: SparkSession, directory: Path, what: str, hint: str) -> None:
    """Refuses a directory that driver and executors do not share. In one process they do."""
    context = spark.sparkContext
    if is_local(str(context.master)):
        return
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    token, tasks = uuid.uuid4().hex, max(2, _TASKS * int(context.defaultParallelism))
    (directory / f"{_PREFIX}{token}").write_text(token)
    try:
        answers = context.parallelize(range(tasks), tasks).map(Probe(str(directory), token)).collect()
        wrong = {f"executor on {host}: {problem}" for host, problem in answers if problem is not None}
        for task, (host, problem) in enumerate(answers):
            if problem is None and not (directory / f"{_PREFIX}{token}-{task}").exists():
                wrong.add(f"executor on {host}: the driver does not see what it writes there")
    finally:
        for left in directory.glob(f"{_PREFIX}{token}*"):
            left.unlink(missing_ok=True)
    if wrong:
        raise RunError(
            f"the executors do not share the directory '{directory}' with the driver, and {what}",
            detail="; ".join(sorted(wrong)),
            hint=hint,
        )
