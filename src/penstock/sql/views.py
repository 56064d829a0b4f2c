"""From CREATE CONTINUOUS VIEW to the view that it means."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.stream import Flow, Select
from penstock.model.triggers import Trigger
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import Window, global_window, window_of
from penstock.sql import queries as sql
from penstock.sql.columns import Columns, columns_of
from penstock.sql.errors import Piece, Source
from penstock.sql.flow import at_time, filtered, items_exploded, read_from
from penstock.sql.joins import Find
from penstock.sql.statements import CreateView
from penstock.sql.words import show_aggregate, show_trigger, show_window


def view_of(statement: CreateView, find: Find) -> View:
    """The view that a statement means."""
    source, query, emit = statement.source, statement.query, statement.emit
    if query.items is None:
        raise source.error("a view names its columns", query.place, hint="write SELECT key, count(*) AS n …")
    query, flow, windowed = read_from(source, query, find)
    if windowed is None and _keeps_window(query, flow):
        windowed = sql.Windowed(window_of(), query.source, None, query.place)  # type: ignore[arg-type]
    if windowed is not None and windowed.time is not None:
        flow = at_time(source, flow, windowed.time)
    flow = filtered(source, flow, query.where)
    query, flow = items_exploded(source, query, flow)
    window = global_window() if windowed is None else windowed.window
    columns = columns_of(source, query, windowed, flow)
    words = {repr(a): show_aggregate(a) for _, _, a in columns.aggregates} | (
        {} if windowed is None else {repr(window): show_window(window)}
    )
    if emit.trigger is not None:
        words |= _trigger_words(emit.trigger)
    view = _grouped(source, flow, window, columns, query.place if windowed is None else windowed.place, words)
    return _emitted(source, _shown(source, view, columns, query), emit, words)


def _trigger_words(trigger: Trigger) -> dict[str, str]:
    """A trigger and its parts as Python and as SQL write them, the whole before its parts."""
    words = {repr(trigger): show_trigger(trigger)}
    for part in trigger.parts:
        words |= _trigger_words(part)
    return words


def _keeps_window(query: sql.Select, flow: Flow) -> bool:
    """Whether a query groups rows by the window that they name themselves, as a view's changes do."""
    groups = {group.text.lower() for group in query.group or ()}
    return flow.schema is not None and groups.issuperset(WINDOW_COLUMNS) and set(WINDOW_COLUMNS) <= {*flow.schema.names}


def _grouped(source: Source, flow: Flow, window: Window, columns: Columns, place: Piece, words: dict[str, str]) -> View:
    """The view as it is without SELECT expressions, HAVING and EMIT. Each part is tried alone, to place its errors."""
    for at, (_, text) in columns.keys:
        with source.at(at):
            Select(flow, (("key", text),))
    keys = flow.group_by(**dict(pair for _, pair in columns.keys))
    for call, name, aggregate in columns.aggregates:
        filtered(source, flow, call.where)
        with source.at(call.whole, words):
            keys.agg(**{name: aggregate})
    with source.at(place, words):
        return keys.window(window).agg(**{name: part for _, name, part in columns.aggregates})


def _shown(source: Source, view: View, columns: Columns, query: sql.Select) -> View:
    if columns.shown is not None:
        for at, (name, text) in columns.shown:
            with source.at(at):
                view.select(**{name: text})
        with source.at(query.place):
            view = view.select(**dict(pair for _, pair in columns.shown))
    if columns.having is not None and query.having is not None:
        with source.at(query.having):
            view = view.having(columns.having)
    return view


def _emitted(source: Source, view: View, emit: sql.Emit, words: dict[str, str]) -> View:
    if emit.lateness is not None and emit.lateness_place is not None:
        with source.at(emit.lateness_place, words):
            view = view.allow_late(f"{emit.lateness} microseconds")
    if emit.trigger is not None and emit.trigger_place is not None:
        with source.at(emit.trigger_place, words):
            view = view.trigger(emit.trigger)
    if emit.accumulation is not None and emit.accumulation_place is not None:
        with source.at(emit.accumulation_place, words):
            view = replace(view, accumulation=emit.accumulation)
    return view
