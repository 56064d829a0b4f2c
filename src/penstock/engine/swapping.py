"""The part of a run that takes up generations: what later commits hold is put aside, and one of them swaps."""

from __future__ import annotations

import json
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.engine.core import Engine
from penstock.engine.definitions import dumped
from penstock.engine.holding import Aside
from penstock.kernel.plan import Plan
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.store import Commit, SqlStore
from penstock.store.checkpoints import Place
from penstock.store.file import PastVersions
from penstock.store.generations import Origin, Scope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: How the folders begin in which a generation's deltas wait.
SPOOL: Final = "generation-"


@dataclass(frozen=True)
class Begun:
    """A generation in the making: the commit up to which the past is, and all that held then."""

    hidden: str
    plan: Plan
    commit: int
    watermark: Instant
    now: Instant
    offsets: Mapping[str, str | None]  # by stream; None where nothing is committed


class Swapping(ABC):
    """Generations of the views of a run, for what computes them beside its epochs."""

    directory: Path
    engine: Engine
    store: SqlStore
    _clock: Callable[[], Instant]
    _mutex: threading.RLock

    _spark: SparkSession

    @abstractmethod
    def _tell_committed(self) -> None:
        """Wakes those who wait for a commit."""

    @abstractmethod
    def _checkpoint(self, name: str) -> Place: ...

    @abstractmethod
    def _lacking(self) -> set[str]: ...

    @abstractmethod
    def _restart_all(self, streams: Collection[str]) -> None: ...

    @property
    def spark(self) -> SparkSession:
        """The session in which epochs run."""
        return self._spark

    def checkpoint(self, stream: str) -> Place:
        """Where Spark keeps how far it has read a stream."""
        return self._checkpoint(stream)

    def begin_generations(self) -> None:
        """Clears away what a process that died has left, and remembers what each view is, functions and all.

        So it can be gone back to when it is another one.
        """
        for left in self.directory.glob(f"{SPOOL}*"):
            shutil.rmtree(left, ignore_errors=True)
        views = {name: kept.plan.written for name, kept in self.engine.views.items()}
        lacking = self.store.unknown_definitions({name: repr(view) for name, view in views.items()})
        for name in lacking:
            self.store.note_definition(
                name, repr(views[name]), dumped(self.directory, name, views[name]), self._clock()
            )

    def now(self) -> Instant:
        """The run's clock."""
        return self._clock()

    @contextmanager
    def between_commits(self) -> Iterator[None]:
        """In here no epoch and no tick commits."""
        with self._mutex:
            yield

    def begin_generation(self, name: str, view: View, put: Callable[[Aside], None]) -> Begun:
        """Notes how far everything is; what a generation of a view takes from later commits is put aside."""
        with self._mutex:
            hidden, now, last = self.store.hidden(name), self._clock(), self.store.last()
            plan = self.engine.begin_beside(hidden, name, view, now, put)
            try:
                self.store.begin_generation(hidden, plan)
            except BaseException:
                self.engine.end_beside(hidden)
                raise
            mark = self.engine.beside[hidden].kept.time.watermark
            offsets = {source.name: self._committed_offsets(source.name) for source in view.input.sources}
            begun = Begun(hidden, plan, 0 if last is None else last.number, mark, now, offsets)
            lacking = self._lacking()
        self._restart_all(lacking)
        return begun

    def _committed_offsets(self, stream: str) -> str | None:
        try:
            query = json.loads((self._checkpoint(stream) / "metadata").read_text())["id"]
        except FileNotFoundError:
            return None
        progress = self.store.progress(query)
        return None if progress is None else progress.offsets

    def swap_generation(self, name: str, hidden: str, origin: Origin, scope: Scope, past: PastVersions | None) -> int:
        """Makes a generation the view, between two commits; the number of the commit that did."""
        with self._mutex:
            mark = self.engine.beside[hidden].kept.time.watermark
            record = Commit(kind="swap", now=self._clock(), view_times={name: mark}, past=past)
            number = self.store.swap(name, hidden, record, origin, scope)
            self.engine.take_over(hidden, name)
            self._tell_committed()
        return number

    def end_generation(self, hidden: str) -> None:
        """Gives up a generation, or what is left of it after the swap."""
        with self._mutex:
            self.engine.end_beside(hidden)
            self.store.end_generation(hidden)
