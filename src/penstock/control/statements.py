"""Statements that change or ask a running app: each is carried out between two commits, and remembered in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from penstock.app import App
from penstock.control.changes import carry_out, copied, goes_on, take
from penstock.control.history import as_reply, asked, historian
from penstock.control.insert import insert
from penstock.control.protocol import Reply
from penstock.control.remembered import Named, ShellDefinitions, named
from penstock.control.works import Works
from penstock.errors import PenstockError, in_quotes, unknown
from penstock.history.batch.runs import SHOWN, back_fill, has_history, replace
from penstock.model.change import changes
from penstock.model.changes import below
from penstock.model.view import View
from penstock.plans.of_app import recorded
from penstock.query.explain import explain_query
from penstock.runtime.run import Run
from penstock.sql import SqlError, Statement, answer, define, parse_one, table_schema
from penstock.sql import statements as sql
from penstock.store.entry import Part

_PARTS: dict[str, Part] = {"STREAM": "stream", "VIEW": "view", "SINK": "sink", "TABLE": "table", "ALERT": "view"}
#: What is done outside the lock that keeps statements apart.
Later = Callable[[], Reply]
_OTHER_FILE = (
    "the app's own code has another definition: change it there too, or the next start is refused and says what differs"
)
_AGAIN = "the app's own code defines it, and brings it back at the next start"


class Statements:
    """Carries out statements on an app that runs, one after the other. What takes long is done beside the others."""

    def __init__(self, app: App, run: Run, works: Works, remembered: ShellDefinitions) -> None:
        self.app, self.run, self.works = app, run, works
        self._remembered, self._resting = remembered, remembered.resting
        self._changing = threading.Lock()
        self._stopped = False
        self._refusal: str | None = None
        self._graph = self._definitions = ""
        self._note_app()

    def refuse(self) -> None:
        """Takes no more statements."""
        self._stopped = True

    @contextmanager
    def refused(self, message: str) -> Iterator[None]:
        """In here no statement is carried out."""
        with self._changing:
            self._refusal = message
        try:
            yield
        finally:
            self._refusal = None

    def wait(self) -> None:
        """Waits for the statement at hand."""
        with self._changing:
            pass

    def check_open(self) -> None:
        """Raises an error if no more statements are taken."""
        if self._stopped or self._refusal is not None:
            raise PenstockError(self._refusal or "the app is stopping")

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""
        with self._changing:
            if not self._stopped:
                self.run.index(view, columns)

    def execute(self, text: str, file: str | None = None) -> Reply:
        """Carries out one statement. What takes long is done while others are carried out."""
        statement = parse_one(text, file)
        with self._changing:
            self.check_open()
            outcome = self._carried_out(statement)
            self._note_app()
        return outcome if isinstance(outcome, Reply) else outcome()

    def _carried_out(self, statement: Statement) -> Reply | Later:
        match statement:
            case sql.Explain(statement=sql.Question() as question):
                schemas = {name: table_schema(view) for name, view in self.app.views.items()}
                return Reply(("plan",), tuple((line,) for line in explain_query(question, schemas)))
            case sql.Show() | sql.ShowCreate() | sql.Describe() | sql.Explain():
                return self._answer(statement)
            case sql.History():
                return lambda: as_reply(
                    asked(historian(self.run, self.app.streams), statement, self.app.streams, list(self.app.views))
                )
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
                | sql.CreateAlert()
            ):  # fmt: skip
                return self._create(statement)
            case _:
                raise _refusal(statement)

    def _answer(self, statement: Statement) -> Reply:
        reply = answer(self.app, statement)
        if isinstance(statement, sql.Show) and statement.what == "VIEWS":
            state = {name: "resting" if name in self._resting else self._state(name) for name in self.app.views}
            return Reply(("view", "state", "definition"), tuple((n, state[str(n)], text) for n, text in reply.rows))
        return Reply(reply.columns, reply.rows)

    def _state(self, view: str) -> str:
        """Whether a generation of a view is in the making, and how far it is."""
        progress = self.works.progress.get(view)
        return "active" if progress is None else f"{progress.kind} {progress.share:.0%}"

    def _create(
        self,
        statement: sql.CreateStream | sql.CreateStreamAs | sql.CreateView | sql.CreateSink | sql.CreateTable
        | sql.CreateAlert,
    ) -> Reply | Later:  # fmt: skip
        name, trial = statement.name.text, copied(self.app)
        old = self.app.views.get(name)
        define(trial, statement)
        if old is not None and isinstance(statement, sql.CreateView):
            return self._replace(statement, old, trial)
        if isinstance(statement, sql.CreateView) and self._has_history(trial, name):
            return self._fill(statement, trial)
        with statement.source.at(statement.name):
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        if isinstance(statement, sql.CreateView) and (views := below(trial.views[name].input)):
            return Reply(message=f"view '{name}' begins with what {in_quotes(views, ' and ')} show so far")
        if isinstance(statement, sql.CreateView):
            return Reply(message=f"view '{name}' takes events from the next epoch on; earlier ones are not in it")
        kinds = {sql.CreateSink: "sink", sql.CreateTable: "table", sql.CreateAlert: "alert"}
        what = kinds.get(type(statement), "stream")
        return Reply(message=f"{what} '{name}' created")

    # generations

    def _has_history(self, app: App, view: str) -> bool:
        return view not in app.from_now and has_history(self.run.history, app.views[view])

    def _fill(self, statement: sql.CreateView, trial: App) -> Later:
        """A new view begins with all of history. It is remembered at once, and there when it is whole."""
        name, view = statement.name.text, trial.views[statement.name.text]
        self.run.store.note("view", name, statement.text)
        take(self.app, trial)

        def fill() -> Reply:
            try:
                with self.works.one() as hear, statement.source.at(statement.name):
                    outcome = back_fill(self.run, name, view, statement=statement.text, on_progress=hear)
            except BaseException:
                if not self._stopped:
                    with self._changing:
                        del self.app.views[name]
                        self.run.store.drop_note("view", name)
                        self._note_app()
                raise
            events = f"{outcome.rows} event{'' if outcome.rows == 1 else 's'}"
            return Reply(message=f"view '{name}' begins with all of history: {events}, up to commit {outcome.point}")

        return fill

    def _compute(self, statement: sql.CreateView, trial: App) -> Later:
        """Another definition is computed beside the old one, which goes on answering."""
        name, view = statement.name.text, trial.views[statement.name.text]
        own = ("view", name) in self._remembered.own

        def compute() -> Reply:
            with self.works.one() as hear, statement.source.at(statement.name):
                outcome = replace(self.run, name, view, statement=None if own else statement.text, on_progress=hear)
            self.define(name, view)
            text = f"view '{name}' has another definition from commit {outcome.commit} on, computed from all of history"
            return Reply(message=f"{text}{f'. Note: {_OTHER_FILE}' if own else ''}")

        return compute

    def compare(self, text: str) -> Reply:
        """What CREATE OR REPLACE would change, without doing it."""
        statement, trial = parse_one(text), copied(self.app)
        define(trial, statement)
        if not isinstance(statement, sql.CreateView) or statement.name.text not in self.app.views:
            raise PenstockError("not another definition of a view", hint="CREATE OR REPLACE CONTINUOUS VIEW …")
        name = statement.name.text
        with self.works.one() as hear:
            difference = replace(self.run, name, trial.views[name], dry=SHOWN, on_progress=hear).difference
        assert difference is not None
        return Reply(tuple(difference.rows.columns), tuple(difference.rows.rows()), difference.summary(name))

    def define(self, name: str, view: View) -> None:
        """The app's view of this name is this one from here on."""
        with self._changing:
            self.app.views[name] = view
            for sink, (of, what, to) in self.app.sinks.items():
                if of == name and isinstance(what, View):
                    self.app.sinks[sink] = (of, view, to)
            self._note_app()

    def _note_app(self) -> None:
        """The store has the graph of the app, for the dashboard, and its definitions, for plans."""
        graph, definitions = self.app.graph().to_json(), recorded(self.app).to_json()
        if graph != self._graph:
            self.run.store.note_graph(graph)
            self._graph = graph
        if definitions != self._definitions:
            self.run.store.note_definitions(definitions)
            self._definitions = definitions

    def _replace(self, statement: sql.CreateView, old: View, trial: App) -> Reply | Later:
        name = statement.name.text
        differences = changes(old, trial.views[name])
        with statement.source.at(statement.name):
            self.works.check_free(name)
            if not differences:
                return Reply(message=f"view '{name}' is defined so already")
            if name in self._resting:
                raise statement.source.error(f"the view '{name}' rests", statement.name, hint=f"ACTIVATE VIEW {name}")
            if not goes_on(old, trial.views[name]):
                return self._compute(statement, trial)
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        if ("view", name) in self._remembered.own:
            self.run.store.note("view", name, None)
        reasons = "; ".join(f"{change.what}: {change.why}" for change in differences)
        return Reply(message=f"view '{name}' goes on with its state. {reasons}{self._warning('view', name)}")

    def _drop(self, statement: sql.Drop) -> Reply:
        trial = copied(self.app)
        define(trial, statement)
        kind, name = _part(statement), statement.name.text
        if (kind, name) not in named(self.app):
            return Reply(message=f"there is no {statement.kind.lower()} '{name}'")
        if kind == "view":
            self.works.check_free(name)
        along = sorted(self.app.sinks.keys() - trial.sinks.keys() - {name})
        with statement.source.at(statement.name):
            carry_out(self.run, self.app, trial, statement.text)
        take(self.app, trial)
        self._resting.discard(name)
        sinks = f", and with it its sinks {', '.join(along)}" if along else ""
        what = statement.kind.lower()
        return Reply(message=f"{what} '{name}' dropped{sinks}{self._warning(kind, name)}")

    def _warning(self, kind: Part, name: str) -> str:
        return f". Note: {_AGAIN}" if (kind, name) in self._remembered.own else ""

    def _activate(self, statement: sql.Activate) -> Reply:
        name = statement.name.text
        if name not in self.app.views:
            raise statement.source.placed(unknown("view", name, self.app.views), statement.name, {})
        if statement.active == (name not in self._resting):
            return Reply(message=f"view '{name}' {'takes events' if statement.active else 'rests'} already")
        with statement.source.at(statement.name):
            self.works.check_free(name)
            if not statement.active:
                self.run.rest_view(name)
                self._resting.add(name)
                return Reply(message=f"view '{name}' rests: its table stays, and it misses what comes from now on")
            before = next(
                entry.rested for entry in self.run.store.catalog() if (entry.kind, entry.name) == ("view", name)
            )
            self.run.wake_view(name, self.app.views[name])
        self._resting.discard(name)
        last = self.run.store.last()
        missed = f"; it has missed commits {(before or 0) + 1} to {last.number}" if last else ""
        return Reply(message=f"view '{name}' takes events from the next epoch on{missed}")

    def _insert(self, statement: sql.Insert) -> Reply:
        name = statement.stream.text
        if name not in self.app.streams:
            raise statement.source.placed(unknown("stream", name, self.app.streams), statement.stream, {})
        count = insert(self.app.streams[name], statement, self.run.directory)
        return Reply(message=f"{count} event{'' if count == 1 else 's'} written to the log of '{name}'")

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
        return Reply(message=f"{kind} '{name}' forgotten")


def _part(statement: sql.Drop) -> Part:
    return _PARTS[statement.kind]


def _refusal(statement: Statement) -> SqlError:
    word = statement.whole.text.split()[0].upper()
    if isinstance(statement, sql.Question | sql.Subscribe):
        return statement.source.error(
            f"{word} is answered from the store, not by the app", statement.whole,
            hint="read the store: penstock sql, or penstock query",
        )  # fmt: skip
    return statement.source.error(
        f"{word} is for scripts, not for a running app", statement.whole, hint="run it with penstock test"
    )
