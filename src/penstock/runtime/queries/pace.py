"""The pace of one stream: its limit in force, what its epochs took, and how far it is behind its log.

What is known goes into the commits: there `penstock status` reads it, and the next run its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.runtime.queries.admission import BOUNDS, Admission, Bounds
from penstock.runtime.spark.internals import last_progress
from penstock.sources import Source
from penstock.store.figures import Intake

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.store import Reader

#: What Spark itself is taken to need for an epoch until it has told: offsets, plan, log.
_SPARK: Final = 0.15


def last_limits(store: Reader) -> dict[str, Intake]:
    """The limit of the last epoch of each stream that had one."""
    rows = store.query('SELECT stream, unit, "limit" FROM __limits').iter_rows()
    return {stream: Intake(unit, limit) for stream, unit, limit in rows}


class Pace:
    """Goes along with a stream's epochs. Without a target, or where the log says how much they take, it only looks."""

    def __init__(
        self, log: Source, target: float | None, before: Intake | None = None, bounds: Sequence[Bounds] = BOUNDS
    ) -> None:
        self._log = log
        self._spark, self._warm = _SPARK, False
        self._latest: Any = None
        self.behind: int | None = None
        self.wanted: int | None = None
        self._admission: Admission | None = None
        if target is not None and log.unit is not None:
            limit = before.limit if before is not None and before.unit == log.unit else None
            own = next(one for one in bounds if one.unit == log.unit)
            self._admission = Admission(own, target=target, limit=limit)

    @property
    def placed(self) -> Source:
        """The log as this run reads it."""
        return self._log

    def begin(self) -> Source:
        """The log for a query that starts: the limit that was wanted is in force from here on."""
        if self._admission is None:
            return self._log
        if self.wanted is not None:
            self._admission.limit, self.wanted = self.wanted, None
        return self._log.limited(self._admission.limit)

    def look(self, query: StreamingQuery | None, offsets: str) -> None:
        """Reads what Spark tells of the epoch before: what it needed itself, and how far the log went then."""
        progress = None if query is None else last_progress(query)
        if progress is None:
            return
        taken = progress["durationMs"]
        if "addBatch" in taken:
            own = (taken["triggerExecution"] - taken["addBatch"]) / 1000
            self._spark += 0.3 * (own - self._spark)
        self._latest = progress["sources"][0].get("latestOffset") or self._latest
        self.behind = self._log.behind(offsets, self._latest)

    def intake(self, taken: int | None) -> Intake:
        """What the commit of an epoch tells of it."""
        if self._admission is None:
            return Intake(behind=self.behind)
        return Intake(self._admission.bounds.unit, self._admission.limit, taken, self.behind)

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
