"""Generations of a running app's views: what a shell or the clock asks for, one at a time, with how far each is.

Statements go on meanwhile. A view of which a generation is in the making can neither be dropped nor replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from penstock.control.audits import as_reply, audit
from penstock.control.protocol import Reply
from penstock.errors import PenstockError
from penstock.history.batch.generation import OnProgress, Outcome, Progress
from penstock.history.batch.log_past import From
from penstock.history.batch.runs import batch, replay, rollback
from penstock.model.time import SECOND, Duration
from penstock.model.view import View
from penstock.runtime.run import Run

_LOOK: Final = 1.0
#: Called with the progress of what is requested in this thread.
LISTENER: Final[ContextVar[OnProgress | None]] = ContextVar("LISTENER", default=None)
#: What another process may ask for.
TASKS: Final = ("audit", "batch", "replay", "rollback")


class Works:
    """The generations and audits of one run. `swapped` is called with a new definition.

    `schedule` is how often a view is computed or audited, by the clock.
    """

    def __init__(
        self, run: Run, schedule: Callable[[], Mapping[tuple[str, str], Duration]], swapped: Callable[[str, View], None]
    ) -> None:
        self._run, self._schedule, self._swapped = run, schedule, swapped
        self._one = threading.Lock()
        self._stopping = threading.Event()
        self.progress: dict[str, Progress] = {}
        self.failures: dict[str, BaseException] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._clock = threading.Thread(target=self._by_the_clock, name="penstock-batch", daemon=True)

    def start(self) -> None:
        """From now on views are computed as often as they say."""
        self._clock.start()

    def stop(self) -> None:
        """The generation at hand is given up, and none begins any more."""
        self._stopping.set()
        with self._one:
            pass
        if self._clock.is_alive():
            self._clock.join()

    @contextmanager
    def one(self) -> Iterator[OnProgress]:
        """In here a generation may be made; how far it is is known to all who ask."""
        listener = LISTENER.get()
        with self._one:
            if self._stopping.is_set():
                raise PenstockError("the app is stopping")

            def hear(progress: Progress) -> None:
                if self._stopping.is_set():
                    raise _given_up()
                self.progress[progress.view] = progress
                if listener is not None:
                    listener(progress)

            try:
                yield hear
            except Exception as error:
                if self._stopping.is_set():
                    raise _given_up() from error
                raise
            finally:
                self.progress.clear()

    def check_free(self, view: str) -> None:
        """Refuses to touch a view of which a generation is in the making."""
        busy = self.progress.get(view)
        if busy is not None:
            raise PenstockError(
                f"a generation of the view '{view}' is in the making: {busy.phase}, {busy.share:.0%}",
                hint="wait until it is done",
            )

    def do(self, task: str, arguments: Mapping[str, Any]) -> Reply:
        """Does what another process asks for."""
        views = arguments.get("views") or ()
        with self.one() as hear:
            if task == "audit":
                as_of, sample = arguments.get("as_of"), float(arguments.get("sample", 1.0))
                return as_reply(audit(self._run, views, as_of=as_of, sample=sample, on_progress=hear))
            if task == "batch":
                whole, late = bool(arguments.get("whole")), arguments.get("late", "in-time")
                outcomes = list(batch(self._run, views, whole=whole, late=late, on_progress=hear))
            elif task == "replay":
                start = From.parse(str(arguments["from"]))
                outcomes = list(replay(self._run, str(arguments["stream"]), start, arguments.get("view"), hear))
            else:
                outcome, view = rollback(self._run, str(arguments["view"]), hear)
                self._swapped(outcome.view, view)
                outcomes = [outcome]
        return reply_of(outcomes)

    def progress_reply(self) -> Reply:
        """How far the generations in the making are, and which of those due by the clock have failed."""
        rows: list[tuple[str, str, str, float]] = [
            (one.view, one.kind, one.phase, round(one.share, 3)) for one in list(self.progress.values())
        ]
        rows += [(view, "batch", f"failed: {error}".splitlines()[0], 0.0) for view, error in self.failures.items()]
        return Reply(("view", "kind", "phase", "share"), tuple(rows))

    # by the clock

    def _by_the_clock(self) -> None:
        while not self._stopping.wait(_LOOK):
            now = time.monotonic()
            for (task, view), every in self._schedule().items():
                due = self._due.setdefault((task, view), now + every / SECOND)
                if now >= due:
                    self._due[task, view] = now + every / SECOND
                    self._compute(task, view)

    def _compute(self, task: str, view: str) -> None:
        """`status` shows a batch run or an audit that failed; it is tried again when it is due."""
        try:
            with self.one() as hear:
                list(
                    batch(self._run, [view], on_progress=hear)
                    if task == "batch"
                    else audit(self._run, [view], on_progress=hear)
                )
            self.failures.pop(view, None)
        except Exception as error:
            self.failures[view] = error


def _given_up() -> PenstockError:
    return PenstockError("the app is stopping: the generation was given up", hint="nothing of it is left; ask again")


def reply_of(outcomes: list[Outcome]) -> Reply:
    """What became of generations, as a table."""
    rows = tuple((one.view, one.kind, one.rows, one.point, one.commit) for one in outcomes)
    message = "" if outcomes else "no view has a history that is kept"
    return Reply(("view", "kind", "events read", "up to commit", "swapped by commit"), rows, message)
