"""What the store has and the app no longer defines, and removing parts of an app from the store while it is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.control.planning import recorded_definitions, stored_names
from penstock.errors import PenstockError, in_quotes, unknown
from penstock.plans.definition import Definition, Kind, Record
from penstock.plans.plan import removal_order
from penstock.store import Reader, SqlStore


def no_longer_defined(store: Reader) -> list[str]:
    """The views of the store that the app lacked at its last start: they get no events."""
    text = store.definitions()
    if text is None:
        return []
    defined = {one.name for one in Record.from_json(text).definitions if one.kind == "view"}
    return [name for name in store.views() if name not in defined]


def remove(store: SqlStore, kind: Kind, name: str) -> None:
    """Removes one part of an app from the store."""
    match kind:
        case "view":
            if name in store.views():
                store.drop(name)
        case "stream" | "operator":
            store.forget_stream(name)
        case "sink":
            store.forget_sink(name)
        case "table":
            store.drop_note("table", name)


def drop(store: SqlStore, names: Sequence[str]) -> list[Definition]:
    """Removes parts of an app with all their rows and state, and the sinks of views: all of them, or nothing."""
    known = stored_names(store) | recorded_definitions(store)  # the app may have lacked it for some starts
    for name in names:
        if name not in {one.name for one in known.values()}:
            raise unknown("view, sink, stream or operator of the store", name, {one.name for one in known.values()})
    chosen = {id: one for id, one in known.items() if one.name in names}
    chosen |= {id: one for id, one in known.items() if one.kind == "sink" and chosen.keys() & set(one.reads)}
    readers = [one.name for id, one in known.items() if id not in chosen and chosen.keys() & set(one.reads)]
    if readers:
        raise PenstockError(
            f"{in_quotes(names)} cannot be dropped: {in_quotes(readers)} reads it", hint="drop that too"
        )
    readers_first = list(chosen.values())[::-1]
    dropped = sorted(readers_first, key=removal_order)
    with store.together():
        for definition in dropped:
            remove(store, definition.kind, definition.name)
        text = store.definitions()
        if text is not None:
            record = Record.from_json(text)
            left = tuple(one for one in record.definitions if one.id not in chosen)
            store.note_definitions(Record(record.app, record.version, left).to_json())
    return dropped
