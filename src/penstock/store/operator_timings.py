"""How long the steps of joins, processors and patterns took, in the details of commits. Nothing is decided by them.

>>> import json
>>> details = timing_details({"paid": OperatorTiming(0.25, 1)})
>>> latest_timings([json.dumps(details), "{}"])
{'paid': OperatorTiming(seconds=0.25, jobs=1)}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: The details of the newest commits, the newest first.
LATEST_DETAILS: Final = "SELECT details FROM __commits ORDER BY number DESC LIMIT 50"
_OPERATORS: Final = "operators"


@dataclass(frozen=True)
class OperatorTiming:
    """One step of an operator: its seconds, and the Spark jobs that it started. With none, the driver did it alone."""

    seconds: float
    jobs: int


def timing_details(timings: Mapping[str, OperatorTiming]) -> dict[str, Any]:
    """The timings of a commit by operator, as its details have them."""
    if not timings:
        return {}
    steps = {name: {"seconds": round(one.seconds, 6), "jobs": one.jobs} for name, one in timings.items()}
    return {_OPERATORS: steps}


def latest_timings(details: Iterable[str]) -> dict[str, OperatorTiming]:
    """The last step of each operator, from the details of commits, the newest first."""
    timings: dict[str, OperatorTiming] = {}
    for text in details:
        for name, step in json.loads(text).get(_OPERATORS, {}).items():
            timings.setdefault(name, OperatorTiming(step["seconds"], step["jobs"]))
    return dict(sorted(timings.items()))
