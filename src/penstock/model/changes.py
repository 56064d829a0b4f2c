"""A view's changes as a stream: each pane is a row, and a retraction takes an earlier one back.

A view over another view reads them in the commit in which they fire. Time goes on there as it does for the view below,
as far as all its windows have fired.

>>> import penstock as ps
>>> bids = ps.stream("bids", schema="auction bigint, price int, at timestamp", event_time="at",
...                  watermark=ps.bounded("4 seconds"))
>>> tops = bids.group_by("auction").window(ps.fixed("10 seconds")).agg(top=ps.max("price")).retracting()
>>> tops.changes("tops").schema.ddl()
'auction bigint, window_start timestamp, window_end timestamp, top int, final boolean, __change int'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.errors import DefinitionError
from penstock.model.commits import Event, Pane
from penstock.model.naming import valid_name
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.model.triggers import Never, OnClose, OnTime
from penstock.model.types import Schema
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.watermarks import Carried
from penstock.model.windows import CountBased, Global

#: +1 where a row shows something, -1 where it takes that back.
CHANGE = "__change"


@dataclass(frozen=True, repr=False)
class Changes(Stream):
    """The changes of a view, by its name."""

    of: View = field(kw_only=True)

    def __post_init__(self) -> None:
        """Nothing of it is written by hand, and its watermark needs no event time."""

    def __repr__(self) -> str:
        return f"{self.of!r}.changes({self.name!r})"


def changes(view: View, name: str | None = None) -> Changes:
    """See `View.changes`."""
    chosen = name or view.name
    if chosen is None or not valid_name(chosen):
        raise DefinitionError(
            "the changes of a view go by the view's name" if chosen is None else f"'{chosen}' cannot be a view's name",
            hint="take what app.view('name', …) returns, or call .changes('name')",
        )
    _check_shows(chosen, view)
    return _changes(chosen, view)


def newest_rows(name: str, view: View) -> Changes:
    """The same for readers to which only the newest row of each window counts: it may be shown again untaken back."""
    if view.firing == Never():
        raise DefinitionError(f"the view '{name}' fires no panes", hint="give it another trigger")
    if view.accumulation == "discarding" and not _fires_once(view):
        raise DefinitionError(
            f"the panes of the view '{name}' are parts of its windows", hint="leave out .discarding(), or fire once"
        )
    return _changes(name, view)


def _changes(chosen: str, view: View) -> Changes:
    schema = _schema(chosen, view)
    timed = view.windows.ends_in_event_time
    watermark = Carried() if _has_watermark(view) else None
    return Changes(
        chosen,
        schema,
        event_time="window_end - INTERVAL 1 MICROSECOND" if timed else None,
        watermark=watermark,
        max_ahead=None,
        sign=CHANGE,
        keep="none",
        of=view,
    )


def _has_watermark(view: View) -> bool:
    return all(source.watermark is not None for source in view.input.sources)


def _check_shows(name: str, view: View) -> None:
    """Refuses changes that would count a window twice, or never."""
    if view.firing == Never():
        raise DefinitionError(f"the view '{name}' fires no panes, so it has no changes", hint="give it another trigger")
    if view.accumulation == "accumulating" and not _fires_once(view):
        raise DefinitionError(
            f"the view '{name}' shows a window again without a retraction: it would count twice",
            hint="call .retracting(), or fire once: .trigger(ps.on_close())",
        )


def _fires_once(view: View) -> bool:
    return isinstance(view.firing, OnClose) or view.firing == OnTime(late=Never())


def _schema(name: str, view: View) -> Schema:
    for text in view.expressions:
        if view.input.schema is None or view.bound(text).type is None:
            raise DefinitionError(
                f"only Spark knows the type of '{text}', and the changes of '{name}' must have types",
                hint="declare it before the view: .transform(…, schema='name type, …')",
            )
    columns = [(key, view.bound(text).type or "string") for key, text in view.keys]
    if not isinstance(view.windows, Global):
        kind = "bigint" if isinstance(view.windows, CountBased) else "timestamp"
        columns += [(bound, kind) for bound in WINDOW_COLUMNS]
    return Schema((*columns, *view.value_types.items(), ("final", "boolean"), (CHANGE, "int")))


def carried(view: View, watermark: Instant) -> Instant:
    """How far time has come for a view's changes: windows that have not fired hold it.

    A view that fires on time has fired all windows that its watermark has passed. Any other has done so only when they
    are closed.
    """
    return watermark if isinstance(view.firing, OnTime) else watermark - view.lateness


def change_rows(view: View, panes: Iterable[Pane]) -> Iterator[Mapping[str, object]]:
    """Panes as rows of the view's changes."""
    bounded = not isinstance(view.windows, Global)
    for pane in panes:
        row: dict[str, object] = dict(zip((key for key, _ in view.keys), pane.key, strict=True))
        if bounded:
            row |= dict(zip(WINDOW_COLUMNS, pane.window, strict=True))
        row |= dict(zip(view.values, pane.values, strict=True))
        yield {**row, "final": pane.final, CHANGE: 1 if pane.kind == "insert" else -1}


def change_events(name: str, view: View, panes: Iterable[Pane], first: int) -> tuple[Event, ...]:
    """The same as events, at places from `first` on."""
    return tuple(Event(name, row, 0, first + i) for i, row in enumerate(change_rows(view, panes)))


def below(flow: Flow) -> dict[str, View]:
    """The views whose changes a flow reads, by name."""
    return {source.name: source.of for source in flow.sources if isinstance(source, Changes)}


def origins(view: View) -> tuple[Stream, ...]:
    """The streams at the far end of a view, through all views below it."""
    streams: dict[str, Stream] = {}
    for source in view.input.sources:
        for stream in origins(source.of) if isinstance(source, Changes) else (source,):
            streams.setdefault(stream.name, stream)
    return tuple(streams.values())


def all_below(view: View) -> dict[str, View]:
    """All views below a view, by name, each after those that it reads."""
    views: dict[str, View] = {}
    for name, other in below(view.input).items():
        views |= {**all_below(other), name: other}
    return views


def in_order(views: Mapping[str, View]) -> dict[str, View]:
    """The views, each after those that it reads."""
    ordered: dict[str, View] = {}

    def put(name: str) -> None:
        if name in ordered:
            return
        for other in below(views[name].input):
            if other in views:
                put(other)
        ordered[name] = views[name]

    for name in views:
        put(name)
    return ordered


def above(name: str, views: Mapping[str, View]) -> list[str]:
    """The views that read a view's changes."""
    return [other for other, view in views.items() if name in below(view.input)]


def check_below(views: Mapping[str, View], known: Mapping[str, View]) -> None:
    """Refuses a view that reads the changes of one that is not there, or that is another one."""
    for name, view in views.items():
        for other, meant in below(view.input).items():
            there = views.get(other) or known.get(other)
            reads = f"the view '{name}' reads the view '{other}'"
            if there is None:
                raise DefinitionError(f"{reads}, which does not exist", hint=f"create '{other}' first")
            if there != meant:
                raise DefinitionError(f"{reads}, which is another view", hint=f"write it over '{other}' as it is now")
