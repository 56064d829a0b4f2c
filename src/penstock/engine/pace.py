"""The pace of one stream: its limit in force, what its epochs took, and how far it is behind its log.

What is known goes into the commits, with their timings: there `penstock status` reads it, and the next run its limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.admission import BYTES, EVENTS, Admission
from penstock.logs import Log

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.store import Reader

_BOUNDS: Final = {bounds.unit: bounds for bounds in (EVENTS, BYTES)}
#: What Spark itself is taken to need for an epoch until it has told: offsets, plan, log.
_SPARK: Final = 0.15
#: Of all epochs: the last one of each stream, by what it noted.
_LAST: Final = 'SELECT c.timings FROM __progress p JOIN __commits c ON c.number = p."commit" ORDER BY c.number'


def last_notes(store: Reader) -> dict[str, dict[str, Any]]:
    """What the last epoch of each stream has noted, by stream."""
    found = [json.loads(timings) for (timings,) in store.query(_LAST).iter_rows()]
    return {note["stream"]: note for note in found if "stream" in note}


class Pace:
    """Goes along with a stream's epochs. Without a target, or where the log says how much they take, it only looks."""

    def __init__(self, stream: str, log: Log, target: float | None, before: Mapping[str, Any] | None = None) -> None:
        self._stream, self._log = stream, log
        self._spark, self._warm = _SPARK, False
        self._latest: Any = None
        self.behind: int | None = None
        self.wanted: int | None = None
        self._admission: Admission | None = None
        if target is not None and log.unit is not None:
            known = before is not None and before.get("unit") == log.unit
            limit = before["limit"] if before is not None and known else None
            self._admission = Admission(_BOUNDS[log.unit], target=target, limit=limit)

    @property
    def placed(self) -> Log:
        """The log as this run reads it."""
        return self._log

    @property
    def log(self) -> Log:
        """The log with the limit in force; what was wanted comes into force when it is read."""
        if self._admission is None:
            return self._log
        if self.wanted is not None:
            self._admission.limit, self.wanted = self.wanted, None
        return self._log.limited(self._admission.limit)

    def look(self, query: StreamingQuery | None, offsets: str) -> None:
        """Reads what Spark tells of the epoch before: what it needed itself, and how far the log went then."""
        told = None if query is None else query._jsq.lastProgress()  # as one text: PySpark asks Java for each number
        if told is None:
            return
        progress: dict[str, Any] = json.loads(told.json())
        taken = progress["durationMs"]
        if "addBatch" in taken:
            own = (taken["triggerExecution"] - taken["addBatch"]) / 1000
            self._spark += 0.3 * (own - self._spark)
        self._latest = progress["sources"][0].get("latestOffset") or self._latest
        self.behind = self._log.behind(offsets, self._latest)

    def notes(self, taken: int | None) -> dict[str, Any]:
        """What the commit of an epoch remembers."""
        found: dict[str, Any] = {"stream": self._stream}
        found |= {} if self.behind is None else {"behind": self.behind}
        if self._admission is not None:
            found |= {"unit": self._admission.bounds.unit, "limit": self._admission.limit}
            found |= {} if taken is None else {"taken": taken}
        return found

    def ended(self, taken: int | None, seconds: float) -> bool:
        """An epoch is committed, after so many seconds of ours. Whether its query is to be started with another limit.

        The first epoch of a run, which starts Python and compiles, tells nothing.
        """
        first, self._warm = not self._warm, True
        if self._admission is None or taken is None or first:
            return False
        wanted = self._admission.took(taken, seconds + self._spark)
        if wanted is not None and self._log.adjust(wanted):
            self._admission.limit, wanted = wanted, None
        self.wanted = wanted
        return wanted is not None
