"""An app that runs and takes statements: each is carried out between two commits, and remembered in the store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from penstock.app import App
from penstock.control.changes import carry_out, check_replaceable, copied, take
from penstock.control.insert import insert
from penstock.control.protocol import Reply
from penstock.control.remembered import Named, named, restore
from penstock.control.server import Server
from penstock.errors import PenstockError, unknown
from penstock.model.view import View
from penstock.sql import SqlError, Statement, answer, define, parse_one
from penstock.sql import statements as sql
from penstock.store import Reader, SqliteStore
from penstock.store.entry import Part
from penstock.store.reader import FILE

_PARTS: dict[str, Part] = {"STREAM": "stream", "VIEW": "view", "SINK": "sink"}
_AGAIN = "the app's own code defines it, and brings it back at the next start"


class Live:
    """Runs an app with what shells have added to it, and listens for more. `options` are those of `Run`."""

    def __init__(self, app: App, directory: Path | str, **options: Any) -> None:
        self.app, self.directory = app, Path(directory)
        reader = Reader(self.directory)
        self._remembered = restore(app, reader.catalog() if (self.directory / FILE).exists() else [])
        reader.close()
        self.warnings = self._remembered.warnings
        self._resting = self._remembered.resting
        self._changing = threading.Lock()
        self._server: Server | None = None
        self._stopped = False
        self.run = app.run(self.directory, resting=sorted(self._resting), **options)
        for kind, name in self._remembered.taken:
            self.run.store.note(kind, name, None)

    @property
    def store(self) -> SqliteStore:
        return self.run.store

    def start(self) -> Live:
        """Starts reading, and listening."""
        self.run.start()
        try:
            self._server = Server(self.app.name, self.directory, self.execute)
        except BaseException:
            self.run.stop()
            raise
        return self

    def stop(self) -> None:
        """Takes no more statements, and stops at an epoch boundary."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        with self._changing:  # the statement at hand is carried out
            self._stopped = True
            self.run.stop()

    def wait(self, seconds: float | None = None) -> None:
        """Waits so long, or until a query fails."""
        self.run.wait(seconds)

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed."""
        self.run.catch_up()

    # statements

    def execute(self, text: str, file: str | None = None) -> Reply:
        """Carries out one statement."""
        statement = parse_one(text, file)
        with self._changing:
            if self._stopped:
                raise PenstockError("the app is stopping")
            match statement:
                case sql.Show() | sql.ShowCreate() | sql.Describe() | sql.Explain():
                    return self._answer(statement)
                case sql.Insert():
                    return self._insert(statement)
                case sql.Activate():
                    return self._activate(statement)
                case sql.Drop() if self._is_lost(statement):
                    return self._forget(statement)
                case sql.Drop():
                    return self._drop(statement)
                case (
                    sql.CreateStream() | sql.CreateStreamAs() | sql.CreateView() | sql.CreateSink() | sql.CreateTable()
                ):
                    return self._create(statement)
                case _:
                    raise _refusal(statement)

    def _answer(self, statement: Statement) -> Reply:
        found = answer(self.app, statement)
        if isinstance(statement, sql.Show) and statement.what == "VIEWS":
            state = {name: "resting" if name in self._resting else "active" for name in self.app.views}
            return Reply(("view", "state", "definition"), tuple((n, state[str(n)], text) for n, text in found.rows))
        return Reply(found.columns, found.rows)

    def _create(
        self, statement: sql.CreateStream | sql.CreateStreamAs | sql.CreateView | sql.CreateSink | sql.CreateTable
    ) -> Reply:
        name, trial = statement.name.text, copied(self.app)
        old = self.app.views.get(name)
        define(trial, statement)
        if old is not None and isinstance(statement, sql.CreateView):
            return self._replace(statement, old, trial)
        with statement.source.at(statement.name):
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        if isinstance(statement, sql.CreateView):
            return Reply(message=f"view «{name}» takes events from the next epoch on; earlier ones are not in it")
        what = "sink" if isinstance(statement, sql.CreateSink) else "stream"
        return Reply(message=f"{what} «{name}» created")

    def _replace(self, statement: sql.CreateView, old: View, trial: App) -> Reply:
        name = statement.name.text
        with statement.source.at(statement.name):
            found = check_replaceable(name, old, trial.views[name])
            if not found:
                return Reply(message=f"view «{name}» is defined so already")
            if name in self._resting:
                raise statement.source.error(f"the view «{name}» rests", statement.name, hint=f"ACTIVATE VIEW {name}")
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        if ("view", name) in self._remembered.own:
            self.run.store.note("view", name, None)
        told = "; ".join(f"{change.what}: {change.why}" for change in found)
        return Reply(message=f"view «{name}» goes on with its state. {told}{self._warning('view', name)}")

    def _drop(self, statement: sql.Drop) -> Reply:
        trial = copied(self.app)
        define(trial, statement)
        kind, name = _part(statement), statement.name.text
        if (kind, name) not in named(self.app):
            return Reply(message=f"there is no {kind} «{name}»")
        along = sorted(self.app.sinks.keys() - trial.sinks.keys() - {name})
        with statement.source.at(statement.name):
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        self._resting.discard(name)
        sinks = f", and with it its sinks {', '.join(along)}" if along else ""
        return Reply(message=f"{kind} «{name}» dropped{sinks}{self._warning(kind, name)}")

    def _warning(self, kind: Part, name: str) -> str:
        return f". Note: {_AGAIN}" if (kind, name) in self._remembered.own else ""

    def _activate(self, statement: sql.Activate) -> Reply:
        name = statement.name.text
        if name not in self.app.views:
            raise statement.source.placed(unknown("view", name, self.app.views), statement.name, {})
        if statement.active == (name not in self._resting):
            return Reply(message=f"view «{name}» {'takes events' if statement.active else 'rests'} already")
        with statement.source.at(statement.name):
            if not statement.active:
                self.run.rest_view(name)
                self._resting.add(name)
                return Reply(message=f"view «{name}» rests: its table stays, and it misses what comes from now on")
            before = next(entry.rested for entry in self.store.catalog() if (entry.kind, entry.name) == ("view", name))
            self.run.wake_view(name, self.app.views[name])
        self._resting.discard(name)
        last = self.store.last()
        missed = f"; it has missed commits {(before or 0) + 1} to {last.number}" if last else ""
        return Reply(message=f"view «{name}» takes events from the next epoch on{missed}")

    def _insert(self, statement: sql.Insert) -> Reply:
        name = statement.stream.text
        if name not in self.app.streams:
            raise statement.source.placed(unknown("stream", name, self.app.streams), statement.stream, {})
        count = insert(self.app.streams[name], statement)
        return Reply(message=f"{count} event{'' if count == 1 else 's'} written to the log of «{name}»")

    # what could not be defined again

    def _is_lost(self, statement: sql.Drop) -> bool:
        return statement.kind in _PARTS and (_part(statement), statement.name.text) in self._remembered.lost

    def _forget(self, statement: sql.Drop) -> Reply:
        key: Named = (_part(statement), statement.name.text)
        kind, name = key
        if kind == "view":
            self.run.drop_view(name)
        elif kind == "stream":
            self.run.drop_stream(name)
        else:
            self.run.store.forget_sink(name)
        del self._remembered.lost[key]
        return Reply(message=f"{kind} «{name}» forgotten")


def _part(statement: sql.Drop) -> Part:
    return _PARTS[statement.kind]


def _refusal(statement: Statement) -> SqlError:
    word = statement.whole.text.split()[0].upper()
    if isinstance(statement, sql.Question | sql.Subscribe | sql.History):
        return statement.source.error(
            f"{word} is answered from the store, not by the app", statement.whole,
            hint="read the store: penstock sql, or penstock query",
        )  # fmt: skip
    return statement.source.error(
        f"{word} is for scripts, not for a running app", statement.whole, hint="run it with penstock test"
    )
