"""Reports user code that hangs: its operator, its function, and the row or key, on the driver and in Spark's tasks.

A thread of each process looks regularly at the user code that runs there (`model/running_code.py`). What has not got
on for some seconds is a long call. A task writes its long calls to a file beside the segments, and removes it when they
are over. The driver collects these files, logs each call once, and puts all of them into the store, where `status` and
the dashboard find them. Code that holds Python's global lock cannot be seen: no other thread runs then.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.model.running_code import RunningCall, running_calls
from penstock.process_state import process
from penstock.store.long_calls import LongCall, packed

#: The seconds after which code that makes no progress is reported.
LONG: Final = 10.0
#: The folder beside the segments for reports of tasks.
FOLDER: Final = "running"
#: A file that was not updated for this number of looks belongs to a dead process.
_DEAD: Final = 20

_log = logging.getLogger("penstock.runtime")


class CallWatcher:
    """Finds calls that make no progress. `look` is called regularly; `clock` returns seconds."""

    def __init__(self, after: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._after, self._clock = after, clock
        self._seen: dict[RunningCall, tuple[int, float]] = {}  # progress, and since when it is the same

    def look(self, task: int | None = None) -> list[LongCall]:
        """The calls without progress since then."""
        now, calls = self._clock(), running_calls()
        seen = {}
        for call in calls:
            progress, since = self._seen.get(call, (call.progress, now))
            seen[call] = (progress, since) if progress == call.progress else (call.progress, now)
        self._seen = seen
        return [
            LongCall(call.operator, call.function, now - since, task, call.position)
            for call, (_, since) in seen.items()
            if now - since >= self._after
        ]


@dataclass(frozen=True)
class TaskWatch:
    """What a task needs to report its long calls. It is sent to tasks."""

    folder: str
    after: float = LONG

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return min(1.0, self.after / 4)

    @contextmanager
    def task(self, number: int) -> Iterator[None]:
        """A task runs inside. On the driver, which watches itself, this does nothing."""
        teller = process.of(_Teller)
        teller.begin(self, number)
        try:
            yield
        finally:
            teller.end()


class _Teller:
    """The thread of a worker process that looks at its code. It is there while tasks run."""

    def __init__(self) -> None:
        self._task: tuple[TaskWatch, int] | None = None
        self._wakes = threading.Event()
        self._thread: threading.Thread | None = None
        #: How many apps this process drives. It watches itself.
        self.monitors = 0

    def begin(self, watch: TaskWatch, number: int) -> None:
        if self.monitors:
            return
        self._task = watch, number
        self._wakes.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="code watch")
            self._thread.start()

    def end(self) -> None:
        self._wakes.clear()
        self._task = None

    def _run(self) -> None:
        watcher, path = None, None
        while True:
            if path is None:
                self._wakes.wait()
            task = self._task
            if task is not None:
                watch, number = task
                watcher = watcher or CallWatcher(watch.after)
                calls = watcher.look(number)
                own = Path(watch.folder) / f"{socket.gethostname()}-{os.getpid()}.json"
                with suppress(OSError):  # the folder may be out of reach: then it is not reported
                    if calls:
                        own.parent.mkdir(parents=True, exist_ok=True)
                        _write(own, calls)
                        path = own
                time.sleep(watch.every)
                if calls:
                    continue
            if path is not None:
                path.unlink(missing_ok=True)
                path = None


def _write(path: Path, calls: list[LongCall]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps([asdict(call) for call in calls]))
    partial.replace(path)


class CodeMonitor:
    """Watches the driver's code, and collects what tasks report. `note` puts long calls into the store, as JSON."""

    def __init__(self, folder: str, note: Callable[[str], None], after: float = LONG) -> None:
        self.watch = TaskWatch(folder, after)
        self._note, self._watcher = note, CallWatcher(after)
        self._told: set[tuple[str | None, str, int | None]] = set()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        process.of(_Teller).monitors += 1
        self._note(packed([]))
        self._thread = threading.Thread(target=self._run, daemon=True, name="code monitor")
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            process.of(_Teller).monitors -= 1

    def _run(self) -> None:
        shown: list[LongCall] = []
        while not self._stopping.wait(self.watch.every):
            calls = self.look()
            if calls or shown:
                try:
                    self._note(packed(calls))
                except Exception as error:  # the next look tries again
                    _log.debug("long calls were not noted: %s", error)
            shown = calls

    def look(self) -> list[LongCall]:
        """All current long calls. Each is logged once."""
        calls = [*self._watcher.look(), *self._of_tasks()]
        named = {(call.operator, call.function, call.task) for call in calls}
        for call in calls:
            if (call.operator, call.function, call.task) not in self._told:
                _log.warning("%s", call.text())
        self._told = named
        return calls

    def _of_tasks(self) -> Iterator[LongCall]:
        for path in Path(self.watch.folder).glob("*.json"):
            with suppress(OSError, ValueError):
                if time.time() - path.stat().st_mtime > _DEAD * max(self.watch.every, 0.5):
                    path.unlink()
                    continue
                yield from (LongCall(**call) for call in json.loads(path.read_text()))
