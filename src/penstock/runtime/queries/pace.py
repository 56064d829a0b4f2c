"""The pace of one stream: its limit in force, what its epochs took, and how far it is behind its log.

A limit changes from one epoch to the next, without a restart of the query. What is known goes into the commits: there
`penstock status` reads it, and the next run its limit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.runtime.queries.admission import BOUNDS, Admission, Bounds
from penstock.runtime.spark.internals import last_progress, set_limit, takes_limits
from penstock.sources import Source
from penstock.store.figures import Intake

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.store import Reader

_log = logging.getLogger("penstock.runtime")

#: What Spark itself is taken to need for an epoch until it has told: offsets, plan, log.
_SPARK: Final = 0.15


def last_limits(store: Reader) -> dict[str, Intake]:
    """The limit of the last epoch of each stream that had one."""
    rows = store.query('SELECT stream, unit, "limit" FROM __limits').iter_rows()
    return {stream: Intake(unit, limit) for stream, unit, limit in rows}


class Pace:
    """Follows a stream's epochs. It sets no limit without a target, or where the source has one of its own.

    `runs_code`: users' Python code runs in the epochs, so that the first ones take few rows.
    """

    def __init__(
        self,
        log: Source,
        target: float | None,
        before: Intake | None = None,
        bounds: Sequence[Bounds] = BOUNDS,
        *,
        runs_code: bool = False,
    ) -> None:
        self._log, self._runs_code = log, runs_code
        self._spark, self._warm, self._fixed = _SPARK, False, False
        self._latest: Any = None
        self._in_force: int | None = None
        self.behind: int | None = None
        self._admission: Admission | None = None
        if target is not None and log.unit is not None:
            limit = before.limit if before is not None and before.unit == log.unit else None
            own = next(one for one in bounds if one.unit == log.unit)
            if limit is None and runs_code and own.careful:
                limit = own.careful
            self._admission = Admission(own, target=target, limit=limit)

    @property
    def placed(self) -> Source:
        """The log as this run reads it."""
        return self._log

    def begin(self) -> Source:
        """The log for a query that starts."""
        if self._admission is None:
            return self._log
        self._in_force = self._admission.limit
        return self._log.limited(self._in_force)

    def began(self, stream: str, query: StreamingQuery) -> None:
        """A query has started. Where Spark does not let its limit change, a warning says so, and it stays."""
        if self._admission is None or self._log.adjusts or takes_limits(query):
            return
        self._fixed = True
        _log.warning(
            "the stream '%s' takes at most %d %s in each epoch: this version of Spark does not let a running query "
            "change its limit; give the source a limit of its own, or use the version of Spark that Penstock requires",
            stream, self._in_force, self._admission.bounds.unit,
        )  # fmt: skip

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
        return Intake(self._admission.bounds.unit, self._in_force, taken, self.behind)

    def ended(self, query: StreamingQuery | None, taken: int | None, seconds: float) -> None:
        """An epoch is committed, after `seconds` on our side; the query's next one may get another limit."""
        first, self._warm = not self._warm, True
        if self._admission is None or self._fixed or taken is None or (first and self._runs_code):
            return
        took = self._admission.took_first if first else self._admission.took
        limit = took(taken, seconds + self._spark)
        if limit == self._in_force or query is None:
            return
        if self._log.adjusts:
            self._log.adjust(limit)
        else:
            set_limit(query, self._admission.bounds.unit, limit)
        self._in_force = limit
