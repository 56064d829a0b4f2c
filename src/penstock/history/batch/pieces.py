"""The files of the history cut into pieces that tasks read themselves: whole files, or row groups of large ones."""

from __future__ import annotations

from typing import Final

import pyarrow.parquet as pq

from penstock.history.batch.tasks import Piece, Pieces
from penstock.history.events.columns import COMMIT, OWN
from penstock.history.events.event_history import HistoryPast
from penstock.history.events.past import Past
from penstock.kernel.expressions import is_of_kernel
from penstock.kernel.plan import PLACE, Plan
from penstock.model.aggregates import Avg, Count, Max, Min, Sum
from penstock.model.time import Instant
from penstock.model.types import Schema

#: A file of more rows than this is read by several tasks.
_LARGE: Final = 1_000_000
#: Aggregates that do not ask where a row stood.
_UNORDERED: Final = (Count, Sum, Avg, Min, Max)


def pieces_of(past: Past, plan: Plan, schema: Schema, columns: tuple[str, ...], *, by_commit: bool) -> Pieces | None:
    """The pieces of a past, or None where only Spark can read it. `by_commit`: the commit of each row is needed."""
    if not isinstance(past, HistoryPast) or past.tombstones or not past.place.is_local:
        return None
    if not all(is_of_kernel(schema.type_of(name)) for name in columns):
        return None
    timed = past.start is not None or past.end is not None
    whole = all(past.after < file.first and file.last <= past.through for file in past.files)
    own = [] if whole and not by_commit else [COMMIT]
    own += ["__at"] if timed else []
    own += list(PLACE) if _is_ordered(plan) else []
    pieces = [
        Piece(path, groups, file.commit)
        for file in past.files
        for path in [past.place.path(file.path)]
        for groups in (_groups(path, past.start, past.end) if timed or file.rows > _LARGE else [()])
    ]
    return Pieces(
        tuple(pieces), (*columns, *(name for name in OWN if name in own)), past.after, past.through,
        past.start, past.end, sum(file.rows for file in past.files),
    )  # fmt: skip


def _is_ordered(plan: Plan) -> bool:
    """Whether it matters where a row stood."""
    aggregates = (aggregate for _, aggregate in plan.view.aggregates)
    return plan.by_row or not all(isinstance(aggregate, _UNORDERED) for aggregate in aggregates)


def _groups(path: str, start: Instant | None, end: Instant | None) -> list[tuple[int, ...]]:
    """The row groups of a file that may hold events of a span of time."""
    with pq.ParquetFile(path) as file:
        column = file.schema_arrow.names.index("__at")
        chosen: list[tuple[int, ...]] = []
        for number in range(file.num_row_groups):
            statistics = file.metadata.row_group(number).column(column).statistics
            known = statistics is not None and statistics.has_min_max
            if not known or ((start is None or statistics.max >= start) and (end is None or statistics.min < end)):
                chosen.append((number,))
        return chosen
