"""The definitions that shells have created, defined again at the start of an app, after those of its own code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.app import App
from penstock.control.changes import copied, take
from penstock.errors import PenstockError
from penstock.sql import define, parse_one
from penstock.store.entry import Entry, Part

Named = tuple[Part, str]


@dataclass
class ShellDefinitions:
    """The restored catalog. `own` is what the app's code defines; `lost` is what cannot be defined, with the error."""

    own: set[Named]
    resting: set[str] = field(default_factory=set)
    lost: dict[Named, PenstockError] = field(default_factory=dict)
    taken: list[Named] = field(default_factory=list)  # a shell made it, and now the app's code defines it

    @property
    def warnings(self) -> list[str]:
        """Lines for the user who starts the app."""
        lines = [f"the {kind} '{name}' of a shell is the app's own from now on" for kind, name in self.taken]
        for (kind, name), error in self.lost.items():
            lines.append(
                f"the {kind} '{name}' of a shell is not there: {error.message.splitlines()[0]}; "
                f"DROP {kind.upper()} {name} forgets it"
            )
        return lines + [f"the view '{name}' rests: ACTIVATE VIEW {name}" for name in sorted(self.resting)]


def named(app: App) -> set[Named]:
    """All that an app has, by kind and name."""
    names: set[Named] = {("stream", name) for name in (*app.streams, *app.flows)}
    names |= {("table", name) for name in app.tables}
    return names | {("view", name) for name in app.views} | {("sink", name) for name in app.sinks}


def only(app: App, names: set[Named]) -> App:
    """An app with these of its definitions only."""
    part = copied(app)
    for kind, definitions in (("stream", part.streams), ("stream", part.flows), ("table", part.tables),
                              ("view", part.views), ("sink", part.sinks), ("view", part.alerts)):  # fmt: skip
        for name in [one for one in definitions if (kind, one) not in names]:
            del definitions[name]
    return part


def restore(app: App, catalog: Iterable[Entry]) -> ShellDefinitions:
    """Adds to an app what shells have created. What cannot be defined any more is left out, with a warning."""
    restored = ShellDefinitions(named(app))
    for entry in catalog:
        key: Named = (entry.kind, entry.name)
        if entry.statement is not None:
            if key in restored.own:
                restored.taken.append(key)
            elif key not in named(app):  # one statement makes all parts of an alert
                _define(app, entry, restored)
        if entry.kind == "view" and entry.rested is not None and entry.name in app.views:
            restored.resting.add(entry.name)
    return restored


def _define(app: App, entry: Entry, restored: ShellDefinitions) -> None:
    trial = copied(app)
    try:
        define(trial, parse_one(entry.statement or "", "catalog"))
    except PenstockError as error:
        restored.lost[entry.kind, entry.name] = error
        return
    take(app, trial)
