"""The plan for an app of a file: what its store has recorded, compared with what the file defines."""

from __future__ import annotations

from pathlib import Path

from penstock.app import App
from penstock.control.changes import copied
from penstock.control.remembered import ShellDefinitions, restore
from penstock.errors import PenstockError
from penstock.model.change import parts
from penstock.model.view import View
from penstock.plans.definition import Definition, Record, by_identity, identity
from penstock.plans.of_app import definitions_of
from penstock.plans.plan import Change, Cost, Facts, Plan, plan
from penstock.runtime.commit.definitions import loaded
from penstock.store.reader import Reader


def planned(app: App, store: Reader) -> Plan:
    """What changes from what the store has recorded to this app, with what shells have made on top of it."""
    wanted = copied(app)
    remembered = restore(wanted, store.catalog())
    recorded = recorded_definitions(store)
    made = plan(app.name, recorded.values(), definitions_of(wanted), facts_of(store))
    return Plan(app.name, (*_lost(remembered, recorded), *made.changes))


def _lost(remembered: ShellDefinitions, recorded: dict[str, Definition]) -> list[Change]:
    """What a shell has made on something that the file does not define any more."""
    return [
        Change(
            "change", kind, name, Cost.REFUSED, "refuse",
            f"a shell made it, and it cannot be defined any more: {error.message.splitlines()[0]}; "
            f"drop it first: DROP {kind.upper()} {name}",
        )
        for (kind, name), error in remembered.lost.items()
        if identity(kind, name) in recorded
    ]  # fmt: skip


def recorded_definitions(store: Reader) -> dict[str, Definition]:
    """What the store has recorded, by identity. Of what an earlier version of Penstock wrote only names are known.

    A view may be recorded whose table the next start makes.
    """
    text, fingerprints = store.definitions(), store.fingerprints()
    known = stored_names(store) if text is None else by_identity(Record.from_json(text).definitions)
    for name, fingerprint in fingerprints.items():
        one = known.get(identity("view", name))
        if one is None or one.state != fingerprint:  # it was replaced while the app was stopped
            known[identity("view", name)] = _view(store, name, fingerprint, () if one is None else one.reads)
    return known


def stored_names(store: Reader) -> dict[str, Definition]:
    """The names of what a store of an earlier version has. Its views are known by their definitions."""
    operators = [Definition("operator", name) for name in store.operator_definitions()]
    known = {one.name for one in operators}
    streams = [Definition("stream", name) for name in store.listing().streams if name not in known]
    sinks = [Definition("sink", name) for (name,) in store.query("SELECT sink FROM __sinks ORDER BY sink").rows()]
    return by_identity([*operators, *streams, *sinks])


def _view(store: Reader, name: str, fingerprint: str, reads: tuple[str, ...]) -> Definition:
    view = stored_view(store, name)
    texts = {} if view is None else parts(view)
    return Definition("view", name, tuple(texts.items()), fingerprint, reads)


def stored_view(store: Reader, name: str) -> View | None:
    """The definition that a view has in the store, functions and all; None where it cannot be had back."""
    text = store.views().get(name)
    for made in reversed(store.generations_of(name)):
        if made.definition == text and made.pickled is not None:
            try:
                return loaded(store.directory, made)
            except PenstockError:
                return None
    return None


def facts_of(store: Reader) -> Facts:
    """What the store holds of the past."""
    listing = store.listing()
    whole = frozenset(name for name, kept in listing.streams.items() if kept.since == 0)
    past = frozenset(file.stream for file in listing.files if file.kind == "events")
    return Facts(whole, past, frozenset(store.views()))


def has_store(directory: Path) -> bool:
    """Whether an app has run in a directory."""
    from penstock.store.database import FILE, NOTE

    return any((directory / name).exists() for name in (FILE, NOTE))
