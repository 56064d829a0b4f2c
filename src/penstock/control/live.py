"""An app that runs and takes statements of shells, with the works that are due by the clock.

Its definitions can change as a whole while it runs: it pauses between two commits, and goes on with other ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.app import App
from penstock.control.instance import Instance
from penstock.control.protocol import Reply
from penstock.control.server import Server
from penstock.control.starting import Apply, begun_with, explained, notes
from penstock.control.tasks import do
from penstock.control.updating import AppFile, Update
from penstock.control.works import TASKS, Works
from penstock.query.forms import with_zones
from penstock.query.parameters import Parameters, bound
from penstock.runtime.phases import Phases
from penstock.runtime.queries.standby import taken
from penstock.runtime.run import Run
from penstock.store import Keep, SqlStore

if TYPE_CHECKING:
    import pyarrow as pa


class Live:
    """Runs an app with what shells have added to it, and listens for more. `options` are those of `Run`.

    It is the companion of its run: whichever of the two is started or stopped, both are. Beside the epochs it takes
    statements, computes and audits views as often as they say, and fills new views from the history. `server` serves it
    over HTTP meanwhile, and yields the URL. `file` is where the app comes from, if that can be loaded again. With
    `apply` the app that has run becomes this one first.
    """

    def __init__(
        self,
        app: App,
        directory: Path | str,
        *,
        server: Callable[[Live], AbstractContextManager[str]] | None = None,
        file: AppFile | None = None,
        apply: Apply | None = None,
        **options: Any,
    ) -> None:
        self.directory, self._http, self._stack = Path(directory), server, ExitStack()
        self._server: Server | None = None
        # A standby first waits: what the app is made of may change until it takes over.
        store = options.pop("store", None)
        if not isinstance(store, SqlStore):
            standby = options.pop("standby", False)
            store = taken(self.directory, options.get("keep", Keep()), standby, store, app.name)
        self._options = with_new_names(options)
        self._update = Update(file, self._options, self._switched)
        try:
            plan = begun_with(app, store, apply, self._options)
            with explained(plan):
                self._instance = self._made(app, store, self._options)
        except BaseException:
            store.close()
            raise
        self.warnings = [*notes(plan), *self._instance.warnings]

    def _made(self, app: App, store: SqlStore, options: Mapping[str, Any]) -> Instance:
        return Instance(app, self.directory, store, self, options)

    @property
    def app(self) -> App:
        """What runs, with what shells have created."""
        return self._instance.app

    @property
    def run(self) -> Run:
        return self._instance.run

    @property
    def works(self) -> Works:
        return self._instance.works

    @property
    def store(self) -> SqlStore:
        return self.run.store

    # start and stop

    def start(self) -> Live:
        """Starts reading, and listening."""
        self.run.start()
        return self

    def stop(self) -> None:
        """Takes no more statements, and stops at an epoch boundary."""
        self._update.close()
        self.run.stop()
        self._close()

    def begin(self) -> None:
        if self._server is None:
            self._server = Server(self.app.name, self.directory, self.execute, self.do)
            if self._http is not None:
                self.run.url = self._stack.enter_context(self._http(self))
        self._instance.begin()

    def end(self) -> None:
        if not self._update.is_switching:
            self._close()
        self._instance.end()

    def _close(self) -> None:
        """Is not served any more, and does not listen."""
        self._stack.close()
        self.run.url = None
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def ready(self) -> None:
        self._instance.ready()

    # wait

    def wait(self, seconds: float | None = None) -> None:
        """Waits for `seconds`, or until a query fails."""
        self._update.wait(lambda: self.run, seconds)

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed, and new views have their history."""
        self._update.through(lambda: self.run, Run.catch_up)

    def drain(self) -> None:
        """All input has ended: it is read, and every window that ends in event time is closed."""
        self._update.through(lambda: self.run, Run.drain)

    # ask and change

    def ask(self, sql: str, parameters: Parameters) -> pa.Table:
        """The answer to a SELECT over the views, of one commit."""
        return with_zones(self._instance.questions.ask(bound(sql, parameters)).table)

    def do(self, name: str, arguments: dict[str, Any]) -> Reply:
        """Does a task that a command asks for, between two epochs where it must."""
        self._instance.statements.check_open()
        if name == "apply":
            return self._update.do(self._instance, arguments)
        if name == "check apply":
            self._update.check(self._instance, str(arguments["file"]))
            return Reply()
        if name == "progress":
            return self.works.progress_reply()
        if name == "index":
            self.index(str(arguments["view"]), [str(column) for column in arguments["columns"]])
            return Reply()
        if name == "compare":
            return self._instance.statements.compare(str(arguments["sql"]))
        return self.works.do(name, arguments) if name in TASKS else do(self.run, name, arguments)

    def _switched(self, app: App) -> None:
        """Goes on with another app, on the store that the run before has left."""
        before = self.run
        phases = Phases()
        phases.committed()  # of the start there is nothing more to tell
        before.store.lock()  # a run that could not be made has given it back
        before.store.forget_definitions()
        try:
            self._instance = self._made(app, before.store, {**self._options, "spark": before.spark, "phases": phases})
        except BaseException:
            before.store.close()  # gives the lock back
            raise
        self.run.url = before.url
        self.run.start()

    def execute(self, text: str, file: str | None = None) -> Reply:
        """Carries out one statement."""
        return self._instance.statements.execute(text, file)

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""
        self._instance.statements.index(view, columns)

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


def with_new_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run, by the names that they have now."""
    if "master_at" not in options:
        return dict(options)
    warnings.warn("'master_at' is called 'history_at' now", DeprecationWarning, stacklevel=4)
    return {"history_at" if name == "master_at" else name: value for name, value in options.items()}
