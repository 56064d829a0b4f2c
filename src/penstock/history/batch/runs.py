"""What is done to the views of a run from its past: replay, batch, replace, roll back, back-fill.

All compute a generation beside the running one and swap it in; they differ in where the past comes from, and in what
becomes the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Literal, TypeAlias, get_args

from penstock.errors import unknown
from penstock.history.batch.generation import Generation, Kind, OnProgress, Outcome, Reach
from penstock.history.batch.log_past import From, ReplayError, log_past
from penstock.history.batch.reading import PART_ROWS
from penstock.history.batch.recomputation import Recomputation
from penstock.history.batch.touched import is_incremental, pasts, touched
from penstock.history.events.event_history import EventHistory
from penstock.history.events.past import Past
from penstock.kernel.plan import Plan
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.commit.definitions import loaded
from penstock.runtime.commit.generations import GenerationStart
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from penstock.store.generations import FIRST, GenerationRecord, same_face

#: What a batch run does with events that came too late: they count, or they do not, as live decided.
Late: TypeAlias = Literal["in-time", "as-live"]
#: The number of rows that a dry run shows.
SHOWN: Final = 20


def replay(
    run: Run, stream: str, start: From, view: str | None = None, on_progress: OnProgress | None = None
) -> Iterator[Outcome]:
    """Rebuilds the views of a stream, or one of them, from a point on; events before it are not in them any more."""
    if stream not in run.streams:
        raise unknown("stream", stream, run.streams)
    views = {name: runtime.plan.written for name, runtime in run.views.items()}
    own_views = {name: one for name, one in views.items() if stream in {source.name for source in one.input.sources}}
    if view is not None and view not in own_views:
        raise unknown(f"view of the stream '{stream}'", view, own_views)
    for name in own_views if view is None else [view]:

        def reach(begun: GenerationStart, one: View = own_views[name]) -> Reach:
            starts = {source.name: start if source.name == stream else From() for source in one.input.sources}
            return Reach({n: [_past(run, run.streams[n], at, begun)] for n, at in starts.items()})

        yield Generation(run, name, own_views[name], reach, "replay", on_progress=on_progress).run()


def batch(
    run: Run, views: Collection[str] = (), *, whole: bool = False, late: Late = "in-time",
    on_progress: OnProgress | None = None, part_rows: int = PART_ROWS,
) -> Iterator[Outcome]:  # fmt: skip
    """Computes views from the history up to now; only the windows touched since the last time, where that is possible.

    To the batch layer no event is late; `late="as-live"` leaves out those that were, as live did since the last batch
    run, and computes all windows. Without names: all views whose streams have a history.
    Views are computed in parts of about `part_rows` rows.
    """
    if late not in get_args(Late):
        raise unknown("way to treat late events", late, get_args(Late))
    known = {name: runtime.plan.written for name, runtime in run.views.items()}
    for name in views:
        if name not in known:
            raise unknown("view", name, known)
        check_kept(run, name, known[name])
    for name in views or [name for name, view in known.items() if is_kept(run, view)]:
        view = known[name]
        if late == "as-live":
            yield _as_live(run, name, view, on_progress)
            continue
        point = None if whole else batch_point(run, name, view)

        def reach(begun: GenerationStart, view: View = view, point: int | None = point) -> Reach:
            history = run.history
            if point is None:
                return _whole(run, view, begun)
            spans = touched(run.spark, view, history, point, begun.commit)
            return Reach(pasts(view, history, spans, begun.commit), spans)

        yield Generation(run, name, view, reach, "batch", on_progress=on_progress, part_rows=part_rows).run()


def _as_live(run: Run, name: str, view: View, on_progress: OnProgress | None) -> Outcome:
    """What live holds, computed again. It is not a batch point: the next batch run takes up where the last one was."""
    history = run.history
    basis = Recomputation(run.spark, run.store, run.streams, {name: view}, history).basis(name)
    if basis.unable is not None:
        raise RunError(f"the live decisions for the view '{name}' cannot be reconstructed: {basis.unable}")

    def reach(begun: GenerationStart) -> Reach:
        streams = (run.streams[source.name] for source in view.input.sources)
        return Reach({stream.name: [history.past(stream, begun.commit, basis.after)] for stream in streams})

    return Generation(run, name, view, reach, "as-live", on_progress=on_progress, point=basis.point).run()


def replace(
    run: Run, name: str, view: View, *, statement: str | None = None, dry: int | None = None,
    kind: Kind = "replace", on_progress: OnProgress | None = None,
) -> Outcome:  # fmt: skip
    """Computes another definition of a view beside the old one, which goes on answering, and swaps.

    `dry` only says what would differ, and shows up to that many rows of it.
    """
    if name not in run.views:
        raise unknown("view", name, run.views)
    if dry is None:
        _check_sinks(run, name, view)
    return from_history(run, name, view, kind, statement=statement, on_progress=on_progress).run(dry)


def from_history(
    run: Run, name: str, view: View, kind: Kind, *, statement: str | None = None, on_progress: OnProgress | None = None
) -> Generation:
    """A generation of a view from all of the past, which is not computed yet."""

    def past(begun: GenerationStart) -> Reach:
        return _whole(run, view, begun)

    return Generation(run, name, view, past, kind, on_progress=on_progress, statement=statement)


def back_fill(
    run: Run, name: str, view: View, *, statement: str | None = None, on_progress: OnProgress | None = None
) -> Outcome:
    """Fills a new view from all of history: it appears when it is complete."""
    if name in run.views:
        raise RunError(f"there is a view '{name}' already", hint="replace it")
    check_kept(run, name, view)
    return from_history(run, name, view, "back-fill", statement=statement, on_progress=on_progress).run()


def rollback(run: Run, name: str, on_progress: OnProgress | None = None) -> tuple[Outcome, View]:
    """Restores the definition before the current one, recomputed from all of history."""
    if name not in run.views:
        raise unknown("view", name, run.views)
    current = run.views[name].plan.written
    record = previous(run.store.generations_of(name), current)
    if record is None or record.pickled is None:
        raise RunError(
            f"the view '{name}' has no earlier definition to go back to",
            hint="replace it by the definition that you want",
        )
    view = loaded(run.directory, record)
    return replace(run, name, view, statement=record.statement, kind="rollback", on_progress=on_progress), view


def previous(records: list[GenerationRecord], current: View) -> GenerationRecord | None:
    """The newest generation of another definition than the current one."""
    return next((one for one in reversed(records) if one.definition != repr(current)), None)


def is_kept(run: Run, view: View) -> bool:
    """Whether the history holds every event that a view is made of."""
    return all(run.history.has(source) for source in view.input.sources)


def has_history(history: EventHistory | None, view: View) -> bool:
    """Whether the history holds every event that a view is made of, and there are some."""
    sources = view.input.sources
    return history is not None and all(map(history.has, sources)) and any(history.past(s).files for s in sources)


def check_kept(run: Run, name: str, view: View) -> None:
    """Rejects a view whose history is incomplete."""
    for source in view.input.sources:
        if not run.history.has(source):
            since = run.history.since(source)
            what = "is not kept" if since is None else f"starts at commit {since + 1}"
            raise RunError(
                f"the view '{name}' cannot be computed from history: that of the stream '{source.name}' {what}",
                hint="if its log still has all events: penstock replay; to keep the history from now on: keep='all'",
            )


def batch_point(run: Run, name: str, view: View) -> int | None:
    """The commit up to which the view was last computed from the history by the definition that it has."""
    if not is_incremental(view):
        return None
    generations = run.store.generations_of(name)
    if not generations or generations[-1].kind in ("replay", FIRST) or generations[-1].definition != repr(view):
        return None
    return generations[-1].point or None


def _whole(run: Run, view: View, begun: GenerationStart) -> Reach:
    """All events so far: from the history, or where it is not complete, from logs that still have them."""
    return Reach({s.name: [_past(run, run.streams[s.name], From(), begun)] for s in view.input.sources})


def _past(run: Run, stream: Stream, start: From, begun: GenerationStart) -> Past:
    """A stream's past from a point on. Offsets are the log's own; else the history has it, if it has all of it."""
    history, since = run.history, run.history.since(stream)
    if since is not None and start.offset is None:
        after = 0 if start.at is None else _commit_before(run, stream.name, start.at)
        if since <= after:
            return history.past(stream, begun.commit, after)
    return log_past(stream, run.workspace.checkpoint(stream.name), begun.offsets[stream.name], start)


def _commit_before(run: Run, stream: str, at: Instant) -> int:
    """The last commit of a stream before a time of the clock. Others may have a later number and an earlier time."""
    sql = 'SELECT coalesce(max("commit"), 0) FROM __marks WHERE stream = ?1 AND now < ?2'
    return int(run.store.query(sql, [stream, at]).item())


def _check_sinks(run: Run, name: str, view: View) -> None:
    """Sinks go on only where their rows look as before."""
    sinks = run.delivery.sinks_of(name)
    new = Plan(run.groups.lowered_alone(name, view).views[name])
    if sinks and not same_face(run.views[name].plan, new):
        raise RunError(
            f"the view '{name}' has the sink '{sinks[0]}', and other columns than before would go there",
            hint=f"drop the sink first: DROP SINK {sinks[0]}; or give the new view another name",
        )


__all__ = [
    "From", "Outcome", "ReplayError", "back_fill", "batch", "check_kept", "from_history", "has_history", "is_kept",
    "replace", "replay", "rollback",
]  # fmt: skip
