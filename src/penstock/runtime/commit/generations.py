"""Generations of the views of a run: begun between two commits, swapped in by one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from penstock.kernel.plan import Plan
from penstock.model.changes import origins
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.commit.definitions import dumped
from penstock.runtime.commit.view_runtime import GenerationInput, PendingGeneration
from penstock.runtime.groups import Groups
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.queries import Queries
from penstock.runtime.workspace import Workspace
from penstock.store import Commit
from penstock.store.file import PastVersions
from penstock.store.generations import Origin, Scope

#: The prefix of folders in which a generation's deltas wait.
SPOOL: Final = "generation-"


@dataclass(frozen=True)
class GenerationStart:
    """Where a generation begins: the commit up to which the past is, and all that held then."""

    hidden: str
    streams: tuple[str, ...]
    plan: Plan
    commit: int
    watermark: Instant
    now: Instant
    offsets: Mapping[str, str | None]  # by stream; None where nothing is committed


class Generations:
    """The generations that are computed beside the epochs of a run."""

    def __init__(self, workspace: Workspace, groups: Groups, queries: Queries, lifecycle: Lifecycle) -> None:
        self._workspace, self._store, self._directory = workspace, workspace.store, workspace.directory
        self._groups, self._queries, self._lifecycle = groups, queries, lifecycle

    def prepare(self) -> None:
        """Removes what a process that died has left, and stores what each view is, functions and all.

        So its definition can be gone back to when it has another one.
        """
        for left in self._directory.glob(f"{SPOOL}*"):
            shutil.rmtree(left, ignore_errors=True)
        views = {name: view.plan.written for name, view in self._groups.views.items()}
        for name in self._store.generations.unknown_definitions({name: repr(view) for name, view in views.items()}):
            code = dumped(self._directory, name, views[name])
            self._store.generations.note_definition(name, repr(views[name]), code, self._lifecycle.clock())

    @contextmanager
    def between_commits(self, start: GenerationStart) -> Iterator[PendingGeneration]:
        """In here no epoch and no tick of the view's group commits."""
        with self._groups.turn(start.streams):
            yield self.pending(start)

    def pending(self, start: GenerationStart) -> PendingGeneration:
        """A generation that has begun and is not swapped in yet."""
        return self._groups.of(start.streams[0]).engine.registry.generations[start.hidden]

    def begin(self, name: str, view: View, put: Callable[[GenerationInput], None]) -> GenerationStart:
        """Records the current positions. `put` receives what the generation takes from later commits."""
        streams = tuple(source.name for source in origins(view))
        with self._groups.turn(streams) as engine:
            registry = engine.registry
            hidden, now, last = self._store.generations.hidden(name), self._lifecycle.clock(), self._store.last()
            plan = registry.begin_generation(hidden, name, view, now, put)
            try:
                self._store.generations.begin(hidden, plan)
            except BaseException:
                registry.end_generation(hidden)
                raise
            watermark = registry.generations[hidden].view.time.watermark
            offsets = {source.name: self._committed_offsets(source.name) for source in view.input.sources}
            number = 0 if last is None else last.number
            start = GenerationStart(hidden, streams, plan, number, watermark, now, offsets)
            lacking = self._queries.hold_lacking(registry.streams)
        self._queries.restart(lacking)
        return start

    def _committed_offsets(self, stream: str) -> str | None:
        try:
            query = json.loads((self._workspace.checkpoint(stream) / "metadata").read_text())["id"]
        except FileNotFoundError:
            return None
        progress = self._store.progress(query)
        return None if progress is None else progress.offsets

    def write_swap(
        self, name: str, start: GenerationStart, origin: Origin, scope: Scope, past: PastVersions | None
    ) -> int:
        """Makes a generation the view in the store, between two commits; the number of the commit that did."""
        with self._groups.turn(start.streams) as engine:
            watermark = engine.registry.generations[start.hidden].view.time.watermark
            record = Commit(kind="swap", now=self._lifecycle.clock(), view_times={name: watermark}, past=past)
            return self._store.generations.swap(name, start.hidden, record, origin, scope)

    def take_over(self, name: str, start: GenerationStart) -> None:
        """Goes on with a generation that the store has swapped in."""
        with self._groups.turn(start.streams) as engine:
            engine.registry.take_over(start.hidden, name)
            self._lifecycle.tell_committed()

    def end(self, start: GenerationStart) -> None:
        """Removes a generation, or what is left of it after the swap."""
        with self._groups.turn(start.streams) as engine:
            engine.registry.end_generation(start.hidden)
            self._store.generations.end(start.hidden)
