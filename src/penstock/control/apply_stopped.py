"""Does a plan on a stopped app: what takes long is computed beside what is there, then one transaction changes all.

A process that dies before that transaction leaves nothing but hidden tables, which the next start removes. After it all
is done: the checkpoints of streams that are gone are removed by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from penstock.app import App
from penstock.control.changes import copied
from penstock.control.planning import stored_view
from penstock.control.remembered import restore
from penstock.errors import PenstockError
from penstock.history.batch.generation import ComputedGeneration, Kind, OnProgress, Outcome
from penstock.history.batch.runs import from_history
from penstock.kernel.plan import Plan as ViewPlan
from penstock.model.stream import Stream
from penstock.model.view import View
from penstock.plans.of_app import recorded
from penstock.plans.plan import Change, Plan
from penstock.runtime.derived.base import made_from
from penstock.runtime.queries.checkpoints import query_of
from penstock.runtime.run import Run
from penstock.store import SqlStore
from penstock.store.checkpoints import checkpoints

#: Opens a run of some streams and views on the locked store. It reads nothing.
OpenRun = Callable[[Mapping[str, Stream], Mapping[str, View]], AbstractContextManager[Run]]


def check_possible(plan: Plan) -> None:
    """Refuses a plan with a change that cannot be done."""
    if plan.refused:
        detail = "\n  ".join(f"{change.subject}: {change.meaning}" for change in plan.refused)
        raise PenstockError(f"{len(plan.refused)} of the changes cannot be done: nothing was changed", detail=detail)


def apply_stopped(
    app: App, store: SqlStore, plan: Plan, open_run: OpenRun, progress: OnProgress | None = None
) -> list[Outcome]:
    """Makes a stopped app what its file says. The store is locked, and the caller closes it."""
    check_possible(plan)
    wanted = copied(app)
    restore(wanted, store.catalog())
    with ExitStack() as stack:
        computed = list(_computed(wanted, store, plan, open_run, progress, stack))
        for generation in computed:
            stack.enter_context(generation.between_commits())
        with store.together():
            for generation in computed:
                if generation.is_unlike_any and generation.name in store.views():
                    store.drop(generation.name)  # its old definition cannot be run: subscribers begin again
                generation.write()
            for change in plan.changes:
                _write(store, wanted, change)
            store.note_definitions(recorded(wanted).to_json())
            store.note_graph(wanted.graph().to_json())
        return [generation.take_over() for generation in computed]


def _computed(
    wanted: App, store: SqlStore, plan: Plan, open_run: OpenRun, progress: OnProgress | None, stack: ExitStack
) -> Iterator[ComputedGeneration]:
    """What is computed from the history, ready to be swapped in."""
    changes = plan.by("fill", "replace")
    if not changes:
        return
    views = {change.name: wanted.views[change.name] for change in changes}
    streams = dict(_streams_below(view.input.sources for view in views.values()))
    old = {change.name: _old(store, change.name, streams) for change in plan.by("replace")}
    run = stack.enter_context(open_run(streams, {name: view for name, view in old.items() if view is not None}))
    for change in changes:
        kind: Kind = "replace" if change.way == "replace" else "back-fill"
        generation = from_history(run, change.name, views[change.name], kind, on_progress=progress)
        yield stack.enter_context(generation.computed())


def _streams_below(sources: Iterator[tuple[Stream, ...]]) -> Iterator[tuple[str, Stream]]:
    """Streams, each after those that it is made from."""
    for several in sources:
        for stream in several:
            yield from _streams_below(iter([made_from(stream)]))
            yield stream.name, stream


def _old(store: SqlStore, name: str, streams: Mapping[str, Stream]) -> View | None:
    """The definition that a view has in the store, where it can be run on the streams of now."""
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
        case ("drop" | "rebuild", "view"):
            if change.name in store.views():
                store.drop(change.name)
        case ("drop" | "rebuild", "stream" | "operator"):
            store.forget_stream(change.name)
        case "drop", "sink":
            store.forget_sink(change.name)
        case "drop", "table":
            store.drop_note("table", change.name)
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
