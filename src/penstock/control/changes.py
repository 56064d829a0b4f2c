"""From one app to another while it runs: what differs between two sets of definitions is done to the run."""

from __future__ import annotations

from penstock.app import App
from penstock.model.view import View
from penstock.runtime.run import Run


def copied(app: App) -> App:
    """The same definitions, to be changed without the app knowing of it."""
    other = App(app.name)
    take(other, app)
    return other


def take(app: App, other: App) -> None:
    """Makes an app what another one is."""
    app.streams, app.views, app.sinks = dict(other.streams), dict(other.views), dict(other.sinks)
    app.flows, app.tables, app.alerts = dict(other.flows), dict(other.tables), dict(other.alerts)
    app.batches, app.audits, app.from_now = dict(other.batches), dict(other.audits), set(other.from_now)
    placements = dict(other.placements)
    app.placements.clear()  # a run reads the same object
    app.placements.update(placements)


def carry_out(run: Run, old: App, new: App, statement: str) -> None:
    """Does to a run what makes the new definitions of the old ones. What comes is remembered with its statement."""
    for name in old.sinks.keys() - new.sinks.keys():
        run.drop_sink(name)
    for name in old.views.keys() - new.views.keys():
        run.drop_view(name)
    for name in old.streams.keys() - new.streams.keys():
        run.drop_stream(name)
    for name in old.flows.keys() - new.flows.keys():
        run.store.forget_stream(name)
        run.store.forgotten(name)
    for name in old.tables.keys() - new.tables.keys():
        run.store.drop_note("table", name)
    for name in new.tables.keys() - old.tables.keys():
        run.store.note("table", name, statement)
    for name, stream in new.streams.items():
        if name not in old.streams:
            run.add_stream(name, stream, statement)
    for name in new.flows.keys() - old.flows.keys():
        run.store.note("stream", name, statement)
    for name, view in new.views.items():
        if name not in old.views or old.views[name] != view:
            run.add_view(name, view, statement)
    for name, (of, what, sink) in new.sinks.items():
        if name not in old.sinks:
            run.add_sink(name, of, what, sink, statement)


def goes_on(old: View, new: View) -> bool:
    """Whether a view can go on with its state under another definition; else its state is recomputed."""
    return old.fingerprint() == new.fingerprint()
