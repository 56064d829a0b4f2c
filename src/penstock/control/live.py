"""An app that runs and takes statements: each is carried out between two commits, and remembered in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.app import App
from penstock.control.changes import carry_out, copied, goes_on, take
from penstock.control.history import as_reply, asked
from penstock.control.insert import insert
from penstock.control.protocol import Reply
from penstock.control.remembered import Named, named, restore
from penstock.control.server import Server
from penstock.control.tasks import do
from penstock.control.works import TASKS, Works
from penstock.errors import PenstockError, unknown
from penstock.history.batch.questions import Historian
from penstock.history.batch.recomputation import Recomputation
from penstock.history.batch.runs import SHOWN, back_fill, has_history, replace
from penstock.history.events.master import Master
from penstock.model.change import changes
from penstock.model.changes import below, in_order
from penstock.model.time import Duration
from penstock.model.view import View
from penstock.query.explain import explain_query
from penstock.runtime.derived.epochs import waiting
from penstock.runtime.queries.standby import taken
from penstock.runtime.run import Run
from penstock.sql import SqlError, Statement, answer, define, parse_one, table_schema
from penstock.sql import statements as sql
from penstock.store import Keep, SqlStore
from penstock.store.entry import Part

_PARTS: dict[str, Part] = {"STREAM": "stream", "VIEW": "view", "SINK": "sink", "TABLE": "table"}
#: What is done outside the lock that keeps statements apart.
Later = Callable[[], Reply]
_AGAIN = "the app's own code defines it, and brings it back at the next start"


class Live:
    """Runs an app with what shells have added to it, and listens for more. `options` are those of `Run`.

    It is the companion of its run: whichever of the two is started or stopped, both are. Beside the epochs it takes
    statements, computes and audits views as often as they say, and fills new views from the history.
    """

    def __init__(self, app: App, directory: Path | str, **options: Any) -> None:
        self.app, self.directory = app, Path(directory)
        # A standby first waits: what the app is made of may change until it takes over.
        store = options.pop("store", None)
        if not isinstance(store, SqlStore):
            standby = options.pop("standby", False)
            store = taken(self.directory, options.get("keep", Keep()), standby, store, app.name)
        try:
            self._begin(app, store, options)
        except BaseException:
            store.close()
            raise

    def _begin(self, app: App, store: SqlStore, options: dict[str, Any]) -> None:
        self._remembered = restore(app, store.catalog())
        self._resting = self._remembered.resting
        self._changing = threading.Lock()
        self._server: Server | None = None
        self._stopped = False
        self._new = _to_fill(app, store, options.get("master_at"))
        begun = _without(app, self._new)
        self.run = Run(
            app.name, waiting(begun.streams), begun.views, self.directory, sinks=begun.sinks,
            resting=sorted(self._resting), store=store, companion=self, **options,
        )  # fmt: skip
        self.warnings = [*self._remembered.warnings, *map(_drained, self.run.drained)]
        self.works = Works(self.run, self._schedule, self._define)
        self._filler = threading.Thread(target=self._fill_new, name="penstock-fill", daemon=True)
        for kind, name in self._remembered.taken:
            self.run.store.note(kind, name, None)

    @property
    def store(self) -> SqlStore:
        return self.run.store

    def start(self) -> Live:
        """Starts reading, and listening."""
        self.run.start()
        return self

    def stop(self) -> None:
        """Takes no more statements, and stops at an epoch boundary."""
        self.run.stop()

    def begin(self) -> None:
        self._server = Server(self.app.name, self.directory, self.execute, self.do)
        self.works.start()
        self._filler.start()

    def end(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self._stopped = True
        self.works.stop()
        with self._changing:  # the statement at hand is carried out, and no other one begins
            pass

    def wait(self, seconds: float | None = None) -> None:
        """Waits so long, or until a query fails."""
        self.run.wait(seconds)

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed, and new views have their history."""
        self.run.catch_up()

    def drain(self) -> None:
        """All input has ended: it is read, and every window that ends in event time is closed."""
        self.run.drain()

    def ready(self) -> None:
        if self._filler.is_alive():
            self._filler.join()

    def do(self, name: str, given: dict[str, Any]) -> Reply:
        """Does a task that a command asks for, between two epochs where it must."""
        if self._stopped:
            raise PenstockError("the app is stopping")
        if name == "progress":
            return self.works.told()
        if name == "index":
            self.index(str(given["view"]), [str(column) for column in given["columns"]])
            return Reply()
        if name == "compare":
            return self._compare(str(given["sql"]))
        return self.works.do(name, given) if name in TASKS else do(self.run, name, given)

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Makes questions by these columns of a view fast."""
        with self._changing:
            if not self._stopped:
                self.run.index(view, columns)

    def failures(self) -> dict[str, int]:
        """The sinks that do not get on, and how often in a row each has failed."""
        return {name: failure.count for name, failure in self.run.delivery.failures.items()}

    def failed(self) -> str | None:
        """Why the run has ended by itself, if it has, or why it does not get on."""
        failure = self.run.failure
        return self.run.missing if failure is None else (str(failure).splitlines() or [""])[0]

    # statements

    def execute(self, text: str, file: str | None = None) -> Reply:
        """Carries out one statement. What takes long is done while others are carried out."""
        statement = parse_one(text, file)
        with self._changing:
            if self._stopped:
                raise PenstockError("the app is stopping")
            found = self._carried_out(statement)
        return found if isinstance(found, Reply) else found()

    def _carried_out(self, statement: Statement) -> Reply | Later:
        match statement:
            case sql.Explain(statement=sql.Question() as question):
                schemas = {name: table_schema(view) for name, view in self.app.views.items()}
                return Reply(("plan",), tuple((line,) for line in explain_query(question, schemas)))
            case sql.Show() | sql.ShowCreate() | sql.Describe() | sql.Explain():
                return self._answer(statement)
            case sql.History():
                return lambda: as_reply(asked(self._historian(), statement, self.app.streams, list(self.app.views)))
            case sql.Insert():
                return self._insert(statement)
            case sql.Activate():
                return self._activate(statement)
            case sql.Drop() if self._is_lost(statement):
                return self._forget(statement)
            case sql.Drop():
                return self._drop(statement)
            case sql.CreateStream() | sql.CreateStreamAs() | sql.CreateView() | sql.CreateSink() | sql.CreateTable():
                return self._create(statement)
            case _:
                raise _refusal(statement)

    def _schedule(self) -> dict[tuple[str, str], Duration]:
        batches = {("batch", name): every for name, every in self.app.batches.items()}
        return batches | {("audit", name): every for name, every in self.app.audits.items()}

    def _historian(self) -> Historian:
        run, master = self.run, self.run.master
        views = {name: kept.plan.written for name, kept in run.views.items()}
        at = Recomputation(run.spark, self.store, self.app.streams, views, master).at
        return Historian(run.spark, self.store, self.app.streams, master, at, run.processor_state)

    def _answer(self, statement: Statement) -> Reply:
        found = answer(self.app, statement)
        if isinstance(statement, sql.Show) and statement.what == "VIEWS":
            state = {name: "resting" if name in self._resting else self._state(name) for name in self.app.views}
            return Reply(("view", "state", "definition"), tuple((n, state[str(n)], text) for n, text in found.rows))
        return Reply(found.columns, found.rows)

    def _state(self, view: str) -> str:
        """Whether a generation of a view is in the making, and how far it is."""
        progress = self.works.progress.get(view)
        return "active" if progress is None else f"{progress.kind} {progress.share:.0%}"

    def _create(
        self, statement: sql.CreateStream | sql.CreateStreamAs | sql.CreateView | sql.CreateSink | sql.CreateTable
    ) -> Reply | Later:
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
            return Reply(
                message=f"view «{name}» begins with what {' and '.join(f'«{one}»' for one in views)} show so far"
            )
        if isinstance(statement, sql.CreateView):
            return Reply(message=f"view «{name}» takes events from the next epoch on; earlier ones are not in it")
        kinds = {sql.CreateSink: "sink", sql.CreateTable: "table"}
        what = kinds.get(type(statement), "stream")
        return Reply(message=f"{what} «{name}» created")

    # generations

    def _has_history(self, app: App, view: str) -> bool:
        return view not in app.from_now and has_history(self.run.master, app.views[view])

    def _fill(self, statement: sql.CreateView, trial: App) -> Later:
        """A new view begins with all of history. It is remembered at once, and there when it is whole."""
        name, view = statement.name.text, trial.views[statement.name.text]
        self.run.store.note("view", name, statement.text)
        take(self.app, trial)

        def fill() -> Reply:
            try:
                with self.works.one() as hear, statement.source.at(statement.name):
                    outcome = back_fill(self.run, name, view, statement=statement.text, told=hear)
            except BaseException:
                if not self._stopped:
                    with self._changing:
                        del self.app.views[name]
                        self.run.store.drop_note("view", name)
                raise
            events = f"{outcome.rows} event{'' if outcome.rows == 1 else 's'}"
            return Reply(message=f"view «{name}» begins with all of history: {events}, up to commit {outcome.point}")

        return fill

    def _fill_new(self) -> None:
        """The views that are new to the store begin with all of history; their sinks follow them."""
        # A shell may have made one, and the app was killed before it was whole.
        said = {entry.name: entry.statement for entry in self.store.catalog() if entry.kind == "view"}
        for name in self._new:
            try:
                view = self.app.views[name]
                if below(view.input):
                    self.run.add_view(name, view, said.get(name))
                else:
                    with self.works.one() as hear:
                        back_fill(self.run, name, view, statement=said.get(name), told=hear)
                for sink, (of, what, to) in self.app.sinks.items():
                    if of == name:
                        self.run.add_sink(sink, of, what, to)
            except Exception as error:
                self.works.failures[name] = error

    def _compute(self, statement: sql.CreateView, trial: App) -> Later:
        """Another definition is computed beside the old one, which goes on answering."""
        name, view = statement.name.text, trial.views[statement.name.text]
        own = ("view", name) in self._remembered.own

        def compute() -> Reply:
            with self.works.one() as hear, statement.source.at(statement.name):
                outcome = replace(self.run, name, view, statement=None if own else statement.text, told=hear)
            self._define(name, view)
            said = f"view «{name}» has another definition from commit {outcome.commit} on, computed from all of history"
            return Reply(message=f"{said}{self._warning('view', name)}")

        return compute

    def _compare(self, text: str) -> Reply:
        """What CREATE OR REPLACE would change, without doing it."""
        statement, trial = parse_one(text), copied(self.app)
        define(trial, statement)
        if not isinstance(statement, sql.CreateView) or statement.name.text not in self.app.views:
            raise PenstockError("not another definition of a view", hint="CREATE OR REPLACE CONTINUOUS VIEW …")
        name = statement.name.text
        with self.works.one() as hear:
            found = replace(self.run, name, trial.views[name], dry=SHOWN, told=hear).difference
        assert found is not None
        return Reply(tuple(found.rows.columns), tuple(found.rows.rows()), found.told(name))

    def _define(self, name: str, view: View) -> None:
        """The app's view of this name is this one from here on."""
        with self._changing:
            self.app.views[name] = view
            for sink, (of, what, to) in self.app.sinks.items():
                if of == name and isinstance(what, View):
                    self.app.sinks[sink] = (of, view, to)

    def _replace(self, statement: sql.CreateView, old: View, trial: App) -> Reply | Later:
        name = statement.name.text
        found = changes(old, trial.views[name])
        with statement.source.at(statement.name):
            self.works.check_free(name)
            if not found:
                return Reply(message=f"view «{name}» is defined so already")
            if name in self._resting:
                raise statement.source.error(f"the view «{name}» rests", statement.name, hint=f"ACTIVATE VIEW {name}")
            if not goes_on(old, trial.views[name]):
                return self._compute(statement, trial)
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
        if kind == "view":
            self.works.check_free(name)
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
            self.works.check_free(name)
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
        count = insert(self.app.streams[name], statement, self.directory)
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


def _drained(stream: str) -> str:
    """What to tell of a stream whose input had ended before."""
    return f"the stream '{stream}' was drained: what it brings now is late; penstock batch counts it"


def _to_fill(app: App, store: SqlStore, master_at: str | Path | None) -> list[str]:
    """The views that are new to a store which holds the history that they are made of."""
    master, known = Master(store, None if master_at is None else str(master_at)), store.views()
    new = {name: view for name, view in app.views.items() if name not in known and name not in app.from_now}
    found = {name for name, view in new.items() if has_history(master, view)}
    for name, view in in_order(app.views).items():
        if found & below(view.input).keys():
            found.add(name)  # it begins with what those show then
    return [name for name in in_order(app.views) if name in found]


def _without(app: App, views: list[str]) -> App:
    """The same app without these views and their sinks."""
    other = copied(app)
    for name in views:
        del other.views[name]
    other.sinks = {sink: given for sink, given in other.sinks.items() if given[0] not in views}
    return other


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
