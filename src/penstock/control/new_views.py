"""Views that are new to a store: which of them begin with its history, and the app until they are filled."""

from __future__ import annotations

from pathlib import Path

from penstock.app import App
from penstock.control.changes import copied
from penstock.history.batch.runs import has_history
from penstock.history.events.event_history import EventHistory
from penstock.model.changes import below, in_order
from penstock.store import SqlStore


def to_fill(app: App, store: SqlStore, history_at: str | Path | None) -> list[str]:
    """The views that are new to a store which holds the history that they are made of."""
    history, known = EventHistory(store, None if history_at is None else str(history_at)), store.views()
    new = {name: view for name, view in app.views.items() if name not in known and name not in app.from_now}
    filled = {name for name, view in new.items() if has_history(history, view)}
    for name, view in in_order(app.views).items():
        if filled & below(view.input).keys():
            filled.add(name)  # it begins with what those show then
    return [name for name in in_order(app.views) if name in filled]


def without(app: App, views: list[str]) -> App:
    """The same app without these views and their sinks."""
    other = copied(app)
    for name in views:
        del other.views[name]
    other.sinks = {sink: definition for sink, definition in other.sinks.items() if definition[0] not in views}
    return other
