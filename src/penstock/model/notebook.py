"""Definitions as notebooks show them: columns with their types, and where each comes from.

>>> from penstock.model.stream import stream
>>> print(flow_html(stream("visits", schema="page string")))
<table><caption>visits</caption><tr><th>column</th><th>type</th></tr><tr><td>page</td><td>string</td></tr></table>
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from penstock.html_table import html_table

if TYPE_CHECKING:
    from penstock.model.stream import Flow
    from penstock.model.view import View


def flow_html(flow: Flow) -> str:
    """The columns of a stream, or of what is made of one."""
    if flow.schema is None:
        return f"<pre>{html.escape(repr(flow))}</pre>"
    name = ", ".join(source.name for source in flow.sources)
    time = [source.event_time for source in flow.sources if source.event_time is not None]
    caption = f"{name} · event time {', '.join(time)}" if time else name
    return html_table(("column", "type"), list(flow.schema), caption if not flow.inputs else f"made of {caption}")


def view_html(view: View) -> str:
    """The columns of a view, and what each shows."""
    time = dict.fromkeys(("window_start", "window_end"), "timestamp" if view.windows.ends_in_event_time else "")
    shown = dict(view.shown or ()) or {name: repr(aggregate) for name, aggregate in view.aggregates}
    rows = [(name, view.bound(text).type or "", f"key: {text}") for name, text in view.keys]
    rows += [(name, kind, repr(view.windows)) for name, kind in time.items()]
    rows += [(name, kind, shown.get(name, "")) for name, kind in view.value_types.items()]
    rows.append(("final", "boolean", "no event can change the row any more"))
    return html_table(("column", "type", "shows"), rows, view.name or "a view")
