"""Alerts: conditions on the rows of a view, by key, with a row when one begins to fire and one when it is resolved.

An alert is a stream of these rows, which sinks get, and a view of what it is now for each key.

>>> import penstock as ps
>>> from penstock.testing import TestStream, run
>>> visits = ps.stream("visits", schema="page string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"))
>>> views = visits.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count())
>>> busy = alert("busy", "views", views, "n > 1")
>>> script = TestStream(visits).add(("/a", "12:00:10"), ("/a", "12:00:20"), ("/b", "12:00:30")).watermark("12:01:00")
>>> [(row["page"], row["state"], row["n"]) for row in run(busy.view, script).table]
[('/a', 'firing', 2)]
>>> [(row["page"], row["state"], row["n"]) for row in run(busy.view, script.watermark("12:02:00")).table]
[('/a', 'resolved', None)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from penstock.dataflow.process_stream import processor_stream
from penstock.errors import DefinitionError
from penstock.model.aggregates import max_by
from penstock.model.alert_processor import BOUNDS, HOLDS, OWN, alert_processor, changes_of
from penstock.model.changes import newest_rows
from penstock.model.expressions.column import Sql, sql_text
from penstock.model.stream import Stream
from penstock.model.time import Duration, Instant
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.windows import Cumulating, Global, Session, Sliding

#: What an alert watches for: a condition over the columns of a view, as text or as an expression.
Condition: TypeAlias = Sql


@dataclass(frozen=True)
class Alert:
    """An alert of an app: what it is now for each key (`view`), and the stream of its changes.

    `of` is the name of the view that it watches, `when` the condition.
    """

    name: str
    of: str
    when: str
    stream: Stream
    view: View


def alert(name: str, of: str, view: View, when: Condition) -> Alert:
    """An alert on a view of this name: it fires for a key while the condition holds."""
    rows, text = newest_rows(of, view), sql_text(when)
    assert rows.schema is not None
    keys = [key for key, _ in view.keys]
    values = Schema(tuple((key, kind) for key, kind in rows.schema if key in (*keys, *view.values)))
    _check_names(of, values)
    bounded = not isinstance(view.windows, Global)
    flow = rows.select(
        *values.names, *(("window_start", "window_end") if bounded else ()), **{HOLDS: f"coalesce(({text}), false)"}
    )
    kind = None if flow.schema is None else flow.schema.type_of(HOLDS)
    if kind != "boolean":
        raise DefinitionError(f"when={text!r} is not a condition", hint="for example when='posts > 1000'")
    bounds = rows.schema.type_of("window_start") if bounded else None
    processor = alert_processor(keys, values, bounds, _step(view), text)
    made = processor_stream(
        changes_of(name),
        flow,
        processor,
        by=tuple(keys) or ("'' AS alert_key",),
        allow_late=timedelta(microseconds=view.lateness),  # panes of windows that still take late events come too
    ).stream
    columns = [column for column in made.schema.names if column not in (*keys, "number")]
    shown = {column: max_by(f"`{column}`", "number") for column in columns}
    return Alert(name, of, text, made, made.group_by(*keys).agg(**shown))


def _step(view: View) -> Callable[[Instant, Instant], Duration] | None:
    """How long after the end of a window the next one ends."""
    windows = view.windows
    if not windows.ends_in_event_time:
        return None
    step = (
        windows.every if isinstance(windows, Sliding)
        else windows.step if isinstance(windows, Cumulating)
        else windows.gap if isinstance(windows, Session)
        else None
    )  # fmt: skip
    return (lambda start, end: end - start) if step is None else (lambda start, end: step)


def _check_names(of: str, values: Schema) -> None:
    own = (*OWN.names, *BOUNDS, HOLDS)
    taken = [name for name in values.names if name in own]
    if taken:
        raise DefinitionError(
            f"the view '{of}' has a column '{taken[0]}', and so has an alert",
            detail=f"an alert has the columns {', '.join((*OWN.names, *BOUNDS))}",
            hint="give the view's column another name",
        )
