"""How many Spark jobs and stages the epochs of streams started, in the details of commits. Nothing is decided by them.

>>> import json
>>> details = work_details("orders", SparkWork(jobs=1, stages=2))
>>> latest_work([json.dumps(details), "{}"])
{'orders': SparkWork(jobs=1, stages=2)}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

_WORK: Final = "spark_work"


@dataclass(frozen=True)
class SparkWork:
    """What an epoch started in Spark. With no jobs, the driver did it alone."""

    jobs: int = 0
    stages: int = 0


def work_details(stream: str, work: SparkWork) -> dict[str, Any]:
    """The work of an epoch, as the details of its commit have it."""
    return {_WORK: {stream: asdict(work)}}


def latest_work(details: Iterable[str]) -> dict[str, SparkWork]:
    """The work of each stream's last epoch, from the details of commits, the newest first."""
    latest: dict[str, SparkWork] = {}
    for text in details:
        for stream, work in json.loads(text).get(_WORK, {}).items():
            latest.setdefault(stream, SparkWork(work["jobs"], work["stages"]))
    return dict(sorted(latest.items()))
