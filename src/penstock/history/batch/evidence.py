"""What an audit shows of a row that differs: its key and window, both values, and events of the history behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.history.batch.differences import compared
from penstock.history.events.event_history import EventHistory
from penstock.kernel.plan import END, START
from penstock.model.stream import Stream, branches
from penstock.model.time import Instant, show_instant
from penstock.model.view import View
from penstock.model.windows import CountBased, Global
from penstock.runtime.epoch.analyst import applied
from penstock.store.tables import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The number of events that are shown with each row.
EVENTS: Final = 5


@dataclass(frozen=True)
class Row:
    """A row that is not what it should be: key and window, what differs (stored, computed), and events behind it."""

    key: Mapping[str, object]
    window: str
    kind: str  # differs, missing (the store lacks it), extra (nothing computes it)
    values: Mapping[str, tuple[object, object]]
    events: Sequence[Mapping[str, object]] = ()


class Evidence:
    """Shows rows of a view that differ, with events of the history that belong to them."""

    def __init__(self, spark: SparkSession, streams: Mapping[str, Stream], history: EventHistory) -> None:
        self._spark, self._streams, self._history = spark, streams, history

    def row(self, layout: Layout, row: Mapping[str, Any], commit: int) -> Row:
        """What the audit shows of a row that differs."""
        plan = layout.plan
        kind = row["__kind"]
        values = {
            name: (row[name], row[f"{name}:computed"])
            for name in compared(layout)
            if not name.startswith((":", "__")) and row[name] != row[f"{name}:computed"]
        }
        key = {name: row[name] if row[name] is not None else row[f"{name}:computed"] for name in plan.keys}
        start, end = row[START], row[END]
        if isinstance(plan.view.windows, CountBased):
            window = f"elements {start} to {end}"
        elif isinstance(plan.view.windows, Global):
            window = "all time"
        else:
            window = f"{show_instant(start)} to {show_instant(end)}"
        return Row(key, window, kind, values, self._events(plan.written, key, start, end, commit))

    def _events(
        self, view: View, key: Mapping[str, Any], start: Instant, end: Instant, commit: int
    ) -> list[dict[str, object]]:
        """Some events that belong to a row, where they can be found by its key and window."""
        from pyspark.sql import functions as f

        events: list[dict[str, object]] = []
        for branch in branches(view.input):
            frame = self._history.past(self._streams[branch.source.name], commit).frame(
                self._spark, branch.source.schema.names
            )
            try:
                if view.windows.ends_in_event_time:
                    frame = frame.where((f.col("__at") >= start) & (f.col("__at") < end))
                rows = applied(frame, branch.steps)
                for name, text in view.keys:
                    rows = rows.where(f.expr(text).cast("string").eqNullSafe(f.lit(key[name]).cast("string")))
                events += rows.limit(EVENTS).toArrow().to_pylist()
            except Exception:  # only a help: if it fails, the row itself is shown all the same
                continue
        return events[:EVENTS]
