"""Changes the definitions of a running app as a whole: it pauses between two commits, and goes on with other ones.

1. The new definitions are tried beside the app, in a store of their own: what would end a start is refused.
2. Views that can be computed from the history while the app reads are computed.
3. The run ends between two commits. The store stays locked, its rows can be read, and new events wait in their sources.
4. One transaction changes the store. If something has failed until here, the app goes on as it was.
5. Another run goes on with the new definitions, in the same Spark session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from penstock.app import App
from penstock.control.applying import Application, check_possible, run_opener
from penstock.control.instance import Instance
from penstock.control.planning import planned
from penstock.control.protocol import Reply
from penstock.control.trial import Trial
from penstock.control.works import LISTENER, reply_of
from penstock.errors import PenstockError
from penstock.history.batch.generation import Outcome, Progress
from penstock.plans.plan import Plan
from penstock.runtime.run import Run
from penstock.runtime.spark.masters import is_local
from penstock.runtime.spark.workers import renew_workers
from penstock.store import Reader

_STOP = "stop the app, apply the file, and start the app with it"


class AppFile(Protocol):
    """The file that an app is made by."""

    path: Path

    def load(self) -> App:
        """Runs it again, and what lies beside it."""

    @property
    def has_other_modules(self) -> bool:
        """Whether modules beside it have changed since they were loaded before."""


class Update:
    """Switches a running app to the definitions that its file has now.

    `switch` makes and starts another instance of an app when the one before has ended. `options` are those of `Run`.
    """

    def __init__(self, file: AppFile | None, options: Mapping[str, Any], switch: Callable[[App], None]) -> None:
        self._file, self._switch = file, switch
        self._options = {name: value for name, value in options.items() if name not in ("phases", "spark")}
        self._one, self._switching, self._settled = threading.Lock(), threading.Lock(), threading.Event()
        self._settled.set()
        self._is_stopping = False
        self._failure: BaseException | None = None

    # who waits for the app meanwhile

    @property
    def is_switching(self) -> bool:
        """Whether one run has ended for another one to go on."""
        return not self._settled.is_set()

    def close(self) -> None:
        """The app stops: waits for a switch at hand, and begins none."""
        with self._switching:
            self._is_stopping = True

    def wait(self, run: Callable[[], Run], seconds: float | None) -> None:
        """Waits for the app for `seconds`, or until it fails."""
        if self._settled.wait(seconds):
            self._check()
            run().wait(seconds)

    def through(self, run: Callable[[], Run], call: Callable[[Run], None]) -> None:
        """Calls something on the run; again, where another run has taken its place meanwhile."""
        while True:
            self._settled.wait()
            self._check()
            current = run()
            try:
                call(current)
            except Exception:
                if self._settled.is_set() and run() is current:
                    raise
            else:
                if self._settled.is_set() and run() is current:
                    return

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    # the change

    def check(self, instance: Instance, path: str) -> AppFile:
        """Refuses what this process cannot switch to: another file, or code that executors would not load again."""
        if self._file is None:
            raise PenstockError("the running app was not started by penstock run with a file", hint=_STOP)
        if Path(path) != self._file.path:
            raise PenstockError(
                f"the running app comes from '{self._file.path}'",
                hint=f"change that file and apply it; or {_STOP}",
            )
        if self._file.has_other_modules and not is_local(instance.run.spark.sparkContext.master or ""):
            raise PenstockError("modules beside the app's file have changed, which executors have loaded", hint=_STOP)
        return self._file

    def do(self, instance: Instance, request: Mapping[str, Any]) -> Reply:
        """Makes the app what its file says now, if that gives the plan that was asked for."""
        file = self.check(instance, str(request["file"]))
        if not self._one.acquire(blocking=False):
            raise PenstockError("the app is being changed already", hint="wait until that is done")
        try:
            keeps_removed = bool(request.get("keep_removed"))
            return reply_of(self._done(instance, file, str(request["plan"]), keeps_removed))
        finally:
            self._one.release()

    def _done(self, instance: Instance, file: AppFile, wanted: str, keeps_removed: bool) -> list[Outcome]:
        run, listener = instance.run, LISTENER.get()
        store, spark = run.store, run.spark
        old: App | None = None

        def tell(progress: Progress) -> None:
            if listener is not None:
                listener(progress)

        def phase(text: str) -> None:
            tell(Progress(app.name, "apply", text))

        def check_plan() -> Plan:
            plan = _planned(app, store, keeps_removed)
            if plan.to_json() != wanted:
                raise PenstockError("the app or its file has changed since the plan was made", hint="apply again")
            return plan

        instance.ready()
        app = file.load()
        has_other_modules = file.has_other_modules
        plan = check_plan()
        check_possible(plan)
        phase("trying the new definitions")
        trial = Trial.of(app, store, spark, self._options)

        def pause() -> None:
            nonlocal old
            self._switching.acquire()
            held.callback(self._switching.release)
            if self._is_stopping:
                raise PenstockError("the app is stopping")
            phase("pausing")
            held.enter_context(instance.statements.refused("the app is being changed: try again"))
            check_plan()
            turn.close()
            old = instance.own
            self._settled.clear()
            run.halt()
            if has_other_modules:
                renew_workers(spark)
            trial.open_sinks(plan, store)
            phase("changing")

        with ExitStack() as held, ExitStack() as turn:
            hear = turn.enter_context(instance.works.one())

            def progress(one: Progress) -> None:
                tell(one) if old is not None else hear(one)

            opener = run_opener(app, store, {**self._options, "spark": spark})
            application = Application(app, store, plan, opener, progress, run, pause)
            try:
                return application.do()
            finally:
                if application.is_done:
                    phase("starting")
                    self._go_on(app, "the file is applied, and the app could not start with it")
                elif old is not None:
                    phase("going back")
                    self._go_on(old, "nothing was changed, and the app could not go on")

    def _go_on(self, app: App, message: str) -> None:
        """Another run of this process. If it cannot start, the process ends."""
        try:
            self._switch(app)
        except BaseException as error:
            self._failure = error
            text = (str(error) or type(error).__name__).splitlines()[0]
            detail, hint = (error.detail, error.hint) if isinstance(error, PenstockError) else (None, None)
            restart = "start it again" if hint is None else f"{hint}; then start it again"
            raise PenstockError(f"{message}: {text}", detail=detail, hint=restart) from error
        finally:
            self._settled.set()


def _planned(app: App, store: Reader, keeps_removed: bool) -> Plan:
    plan = planned(app, store)
    return plan.without_removals() if keeps_removed else plan
