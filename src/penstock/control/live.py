"""An app that runs and takes statements of shells, with the works that are due by the clock."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.app import App
from penstock.control.new_views import to_fill, without
from penstock.control.protocol import Reply
from penstock.control.remembered import restore
from penstock.control.server import Server
from penstock.control.statements import Statements
from penstock.control.tasks import do
from penstock.control.works import TASKS, Works
from penstock.history.batch.runs import back_fill
from penstock.model.changes import below
from penstock.model.time import Duration
from penstock.query.ask import Questions
from penstock.query.forms import with_zones
from penstock.query.parameters import Parameters, bound
from penstock.runtime.derived.epochs import waiting
from penstock.runtime.queries.standby import taken
from penstock.runtime.run import Run
from penstock.store import Keep, SqlStore

if TYPE_CHECKING:
    import pyarrow as pa


class Live:
    """Runs an app with what shells have added to it, and listens for more. `options` are those of `Run`.

    It is the companion of its run: whichever of the two is started or stopped, both are. Beside the epochs it takes
    statements, computes and audits views as often as they say, and fills new views from the history. `server` serves it
    over HTTP meanwhile, and yields the URL.
    """

    def __init__(
        self,
        app: App,
        directory: Path | str,
        *,
        server: Callable[[Live], AbstractContextManager[str]] | None = None,
        **options: Any,
    ) -> None:
        self.app, self.directory = app, Path(directory)
        self._http, self._stack = server, ExitStack()
        # A standby first waits: what the app is made of may change until it takes over.
        store = options.pop("store", None)
        if not isinstance(store, SqlStore):
            standby = options.pop("standby", False)
            store = taken(self.directory, options.get("keep", Keep()), standby, store, app.name)
        try:
            self._begin(app, store, with_new_names(options))
        except BaseException:
            store.close()
            raise

    def _begin(self, app: App, store: SqlStore, options: dict[str, Any]) -> None:
        self._remembered = restore(app, store.catalog())
        self._server: Server | None = None
        self._new = to_fill(app, store, options.get("history_at"))
        begun = without(app, self._new)
        self.run = Run(
            app.name, waiting(begun.streams), begun.views, self.directory, sinks=begun.sinks,
            resting=sorted(self._remembered.resting), store=store, companion=self, placements=app.placements,
            **options,
        )  # fmt: skip
        self.warnings = [*self._remembered.warnings, *map(_drained, self.run.drained)]
        self._questions = Questions(self.run.store, own_tables=True)
        self.works = Works(self.run, self._schedule, lambda name, view: self.statements.define(name, view))
        self.statements = Statements(app, self.run, self.works, self._remembered)
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
        if self._http is not None:
            self.run.url = self._stack.enter_context(self._http(self))
        self.works.start()
        self._filler.start()

    def end(self) -> None:
        self._stack.close()
        self.run.url = None
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.statements.refuse()
        self.works.stop()
        self.statements.wait()

    def wait(self, seconds: float | None = None) -> None:
        """Waits for `seconds`, or until a query fails."""
        self.run.wait(seconds)

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed, and new views have their history."""
        self.run.catch_up()

    def drain(self) -> None:
        """All input has ended: it is read, and every window that ends in event time is closed."""
        self.run.drain()

    def ask(self, sql: str, parameters: Parameters) -> pa.Table:
        """The answer to a SELECT over the views, of one commit."""
        return with_zones(self._questions.ask(bound(sql, parameters)).table)

    def ready(self) -> None:
        if self._filler.is_alive():
            self._filler.join()

    def do(self, name: str, given: dict[str, Any]) -> Reply:
        """Does a task that a command asks for, between two epochs where it must."""
        self.statements.check_open()
        if name == "progress":
            return self.works.told()
        if name == "index":
            self.index(str(given["view"]), [str(column) for column in given["columns"]])
            return Reply()
        if name == "compare":
            return self.statements.compare(str(given["sql"]))
        return self.works.do(name, given) if name in TASKS else do(self.run, name, given)

    def execute(self, text: str, file: str | None = None) -> Reply:
        """Carries out one statement."""
        return self.statements.execute(text, file)

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""
        self.statements.index(view, columns)

    def retry(self, name: str, where: str | None = None) -> tuple[int, int, int]:
        """Feeds in dead letters again: how many, how many of them failed again, and how many are late by now."""
        retried = self.run.retry_dead_letters(name, where)
        return retried.rows, retried.dead, retried.late

    def failures(self) -> dict[str, int]:
        """The sinks that fail now, and how often in a row each has failed."""
        return {name: failure.count for name, failure in self.run.delivery.failures.items()}

    def failed(self) -> str | None:
        """Why the run has ended by itself, if it has, or what it waits for."""
        failure = self.run.failure
        return self.run.missing if failure is None else (str(failure).splitlines() or [""])[0]

    def _schedule(self) -> dict[tuple[str, str], Duration]:
        batches = {("batch", name): every for name, every in self.app.batches.items()}
        return batches | {("audit", name): every for name, every in self.app.audits.items()}

    def _fill_new(self) -> None:
        """The views that are new to the store begin with all of history; their sinks follow them."""
        # A shell may have made one, and the app was killed before it was whole.
        texts = {entry.name: entry.statement for entry in self.store.catalog() if entry.kind == "view"}
        for name in self._new:
            try:
                view = self.app.views[name]
                if below(view.input):
                    self.run.add_view(name, view, texts.get(name))
                else:
                    with self.works.one() as hear:
                        back_fill(self.run, name, view, statement=texts.get(name), on_progress=hear)
                for sink, (of, what, to) in self.app.sinks.items():
                    if of == name:
                        self.run.add_sink(sink, of, what, to)
            except Exception as error:
                self.works.failures[name] = error


def with_new_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run, by the names that they have now."""
    if "master_at" not in options:
        return dict(options)
    warnings.warn("'master_at' is called 'history_at' now", DeprecationWarning, stacklevel=4)
    return {"history_at" if name == "master_at" else name: value for name, value in options.items()}


def _drained(stream: str) -> str:
    """What to tell of a stream whose input had ended before."""
    return f"the stream '{stream}' was drained: what it brings now is late; penstock batch counts it"
