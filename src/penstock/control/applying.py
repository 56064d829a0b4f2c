"""Does a plan: what takes long is computed beside what is there, then one transaction changes all.

A process that dies before that transaction leaves nothing but hidden tables, which the next start removes. After it all
is done: the checkpoints of streams that are gone are removed by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from penstock.app import App
from penstock.control.changes import copied
from penstock.control.dropping import remove
from penstock.control.planning import stored_view
from penstock.control.remembered import restore
from penstock.errors import PenstockError
from penstock.history.batch.generation import ComputedGeneration, Kind, OnProgress, Outcome
from penstock.history.batch.runs import from_history
from penstock.kernel.plan import Plan as ViewPlan
from penstock.model.changes import above
from penstock.model.stream import Stream
from penstock.model.view import View
from penstock.plans.of_app import recorded
from penstock.plans.plan import Change, Plan
from penstock.runtime.derived.base import made_from
from penstock.runtime.queries.checkpoints import query_of
from penstock.runtime.run import Run
from penstock.store import SqlStore
from penstock.store.checkpoints import checkpoints

#: Opens a run of some streams and views on the locked store. It reads nothing, and leaves the store open.
OpenRun: TypeAlias = Callable[[Mapping[str, Stream], Mapping[str, View]], AbstractContextManager[Run]]
Around: TypeAlias = Callable[[], AbstractContextManager[None]]


def check_possible(plan: Plan) -> None:
    """Refuses a plan with a change that cannot be done."""
    if plan.refused:
        detail = "\n  ".join(f"{change.subject}: {change.meaning}" for change in plan.refused)
        raise PenstockError(f"{len(plan.refused)} of the changes cannot be done: nothing was changed", detail=detail)


def run_opener(app: App, store: SqlStore, options: Mapping[str, Any], around: Around = nullcontext) -> OpenRun:
    """What opens a run of a stopped app. `options` are those of `Run`; Spark may start inside of `around`."""

    @contextmanager
    def opened(streams: Mapping[str, Stream], views: Mapping[str, View]) -> Iterator[Run]:
        with around():
            run = Run(
                app.name, streams, views, Path(store.directory), store=store, placements=app.placements, **options
            )
        try:
            yield run
        finally:
            run.halt()

    return opened


@dataclass
class Application:
    """A plan that is being done, on a locked store that the caller closes.

    Either the app is stopped. Or it runs in `beside`: what can be computed while it reads is computed there, and then
    `pause` ends it between two commits.
    """

    app: App
    store: SqlStore
    plan: Plan
    open_run: OpenRun
    progress: OnProgress | None = None
    beside: Run | None = None
    pause: Callable[[], None] = lambda: None
    #: Whether the store is changed: from then on the app is what its file says, whatever fails.
    is_done: bool = False

    def __post_init__(self) -> None:
        check_possible(self.plan)
        self.app = copied(self.app)
        restore(self.app, self.store.catalog())

    def do(self) -> list[Outcome]:
        """Makes the app what its file says: all of it, or nothing."""
        changes, run = self.plan.by("fill", "replace"), self.beside
        with ExitStack() as stack:
            computed = []
            if run is not None and all(self._is_early(run, change) for change in changes):
                computed = [self._computed(run, change, stack) for change in changes]
            self.pause()
            if changes and not computed:
                run = stack.enter_context(self._opened(changes))
                computed = [self._computed(run, change, stack) for change in changes]
            for generation in computed:
                stack.enter_context(generation.between_commits())
            with self.store.together():
                for generation in computed:
                    if generation.is_unlike_any and generation.name in self.store.views():
                        self.store.drop(generation.name)  # its old definition cannot be run: subscribers begin again
                    generation.write()
                for change in self.plan.changes:
                    _write(self.store, self.app, change)
                self.store.records.check_delivery_names(self.app.sinks)
                self.store.note_definitions(recorded(self.app).to_json())
                self.store.note_graph(self.app.graph().to_json())
            self.is_done = True
            return [generation.take_over() for generation in computed]

    # what takes long

    def _is_early(self, run: Run, change: Change) -> bool:
        """Whether a running app can compute a view: its streams are as they will be, and no other view reads it."""
        definitions = {name: view.plan.written for name, view in run.views.items()}
        is_read = change.name in definitions and above(change.name, definitions)
        streams = run.streams
        same = all(streams.get(source.name) == source for source in self.app.views[change.name].input.sources)
        return same and not is_read and (change.way == "fill" or change.name in definitions)

    def _computed(self, run: Run, change: Change, stack: ExitStack) -> ComputedGeneration:
        """A view that is computed from the history, ready to be swapped in."""
        kind: Kind = "replace" if change.way == "replace" else "back-fill"
        view = self.app.views[change.name]
        generation = from_history(run, change.name, view, kind, on_progress=self.progress)
        return stack.enter_context(generation.computed())

    def _opened(self, changes: Iterable[Change]) -> AbstractContextManager[Run]:
        """A run of all streams of these views, with the definitions that they have now."""
        views = {change.name: self.app.views[change.name] for change in changes}
        streams = dict(_streams_below(view.input.sources for view in views.values()))
        old = {change.name: _old(self.store, change.name, streams) for change in changes if change.way == "replace"}
        return self.open_run(streams, {name: view for name, view in old.items() if view is not None})


def _streams_below(sources: Iterator[tuple[Stream, ...]]) -> Iterator[tuple[str, Stream]]:
    """Streams, each after those that it is made from."""
    for several in sources:
        for stream in several:
            yield from _streams_below(iter([made_from(stream)]))
            yield stream.name, stream


def _old(store: SqlStore, name: str, streams: Mapping[str, Stream]) -> View | None:
    """The definition that a view has in the store, where it can be run on the current streams."""
    view = stored_view(store, name)
    if view is None:
        return None
    known = (streams.get(source.name) for source in view.input.sources)
    same = (
        one is not None and one.schema == source.schema for one, source in zip(known, view.input.sources, strict=True)
    )
    return view if all(same) else None


def _write(store: SqlStore, wanted: App, change: Change) -> None:
    """What a change is in the store. All else the next start does by the new definitions."""
    match change.way, change.kind:
        case "drop" | "rebuild", kind:
            remove(store, kind, change.name)
        case "rename", "view":
            assert change.was is not None
            store.records.rename_view(change.was, change.name, ViewPlan(wanted.views[change.name]))
        case "rename", "sink":
            assert change.was is not None
            store.records.rename_sink(change.was, change.name)
        case "reread", _:
            place = checkpoints(Path(store.directory), None) / change.name
            store.records.forget_position(change.name, query_of(place))
        case _:
            return
