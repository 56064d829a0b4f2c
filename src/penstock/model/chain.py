"""A view with all that lies below it, commit by commit: views and operators step after those that they read.

All of them take their step in the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from penstock.model.as_of_reference import reference_of
from penstock.model.cell import EVENT
from penstock.model.changes import CHANGE, Changes, carried, change_events
from penstock.model.commits import Commit, Event, Pane, Rejection, TableRow
from penstock.model.join import StreamJoin, join_behind
from penstock.model.process import Process, process_behind
from penstock.model.process_reference import ProcessReference
from penstock.model.stream import Flow, Stream
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.view import View
from penstock.model.watermarks import Carried


class Runner(Protocol):
    """What runs one view."""

    @property
    def watermark(self) -> Instant: ...
    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]: ...
    def table(self) -> list[TableRow]: ...
    def restart(self) -> Runner: ...


class OperatorReference(Protocol):
    """What runs one operator. `step` gives its rows, and the events that it rejected."""

    def step(self, commit: Commit) -> tuple[list[dict[str, object]], list[Rejection]]: ...
    def watermark(self, event_time: str | None) -> Instant: ...


class JoinOfChain:
    """A join of streams on the reference."""

    def __init__(self, join: StreamJoin) -> None:
        self._join, self._reference = join, reference_of(join)

    def step(self, commit: Commit) -> tuple[list[dict[str, object]], list[Rejection]]:
        output = self._reference.commit(commit)
        names = (*self._join.schema.names, CHANGE) if self._join.signed else self._join.schema.names
        pairs = zip(output.rows, output.signs, strict=True)
        return [dict(zip(names, (*row, sign), strict=False)) for row, sign in pairs], output.refused

    def watermark(self, event_time: str | None) -> Instant:
        return self._join.carried(self._reference.watermark, event_time)


class ProcessOfChain:
    """A processor on the reference."""

    def __init__(self, process: Process) -> None:
        self._process, self._reference = process, ProcessReference(process)

    def step(self, commit: Commit) -> tuple[list[dict[str, object]], list[Rejection]]:
        result = self._reference.commit(commit)
        names = self._process.schema.names
        return [dict(zip(names, self._process.row(row), strict=True)) for _, row in result.outputs], result.refused

    def watermark(self, event_time: str | None) -> Instant:
        """That of its input, held back as it says, or by its earliest timer."""
        mark = self._reference.intake.time.watermark
        if mark in (BEGINNING, END):
            return mark
        if self._process.held is not None:
            return mark - self._process.held
        cells = (cell for _, cell in self._reference.cells.values())
        timers = [at for cell in cells for (clock, _), at in cell.timers.items() if clock == EVENT]
        return min([mark, *timers])


class Below:
    """What gives the rows of the streams that a flow reads, where these are not the script's own."""

    def __init__(self, flows: Collection[Flow], start: Callable[[View], Runner], fed: Collection[str]) -> None:
        self._views: dict[str, tuple[View, Runner]] = {}
        self._operators: dict[str, MadeStream] = {}
        self._names = {source.name for flow in flows for source in flow.sources}
        self._events = dict.fromkeys(self._names, 0)
        for source in (source for flow in flows for source in flow.sources):
            if source.name in self._views or source.name in self._operators:
                continue
            if isinstance(source, Changes):
                self._views[source.name] = source.of, chained(source.of, start, fed)
            elif is_made(source) and source.name not in fed:
                self._operators[source.name] = MadeStream(source, start, fed)

    @property
    def is_empty(self) -> bool:
        return not self._views and not self._operators

    def commit(self, commit: Commit, refused: list[Rejection]) -> Commit:
        """The commit as those above take it: with the rows and the watermarks of what lies below."""
        events: list[Event] = [event for event in commit.events if event.stream in self._names]
        fixed = dict(commit.fixed)
        for name, (view, runner) in self._views.items():
            panes, _ = runner.commit(_own(runner, view, commit))
            events += change_events(name, view, panes, self._events[name])
            self._events[name] += len(panes)
            fixed[name] = carried(view, runner.watermark)
        for name, operator in self._operators.items():
            rows, mark = operator.commit(commit, refused)
            first = self._events[name]
            events += [Event(name, row, 0, first + number) for number, row in enumerate(rows)]
            self._events[name] += len(rows)
            if mark is not None:
                fixed[name] = mark
        return replace(commit, events=tuple(events), fixed=fixed)

    def restart(self) -> None:
        """Views are started again. Operators notice nothing."""
        self._views = {name: (view, runner.restart()) for name, (view, runner) in self._views.items()}


class MadeStream:
    """A stream that an operator gives, with all that lies below it."""

    def __init__(self, stream: Stream, start: Callable[[View], Runner], fed: Collection[str]) -> None:
        join, process = join_behind(stream), process_behind(stream)
        self._stream = stream
        self._operator: OperatorReference
        if join is not None:
            self._operator, flows = JoinOfChain(join), join.flows
        else:
            assert process is not None
            self._operator, flows = ProcessOfChain(process), (process.input,)  # type: ignore[assignment]
        self._below = Below(flows, start, fed)

    def commit(self, commit: Commit, refused: list[Rejection]) -> tuple[list[dict[str, object]], Instant | None]:
        """Its rows, and its watermark where that does not follow from the rows."""
        rows, rejected = self._operator.step(self._below.commit(commit, refused))
        refused += rejected
        mark = self._operator.watermark(self._stream.event_time)
        return rows, mark if isinstance(self._stream.watermark, Carried) or mark >= END else None


class Chain:
    """Runs a view with all that lies below it. What it tells is about the view on top."""

    def __init__(self, view: View, top: Runner, below: Below) -> None:
        self.view, self._top, self._below = view, top, below

    @property
    def watermark(self) -> Instant:
        return self._top.watermark

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]:
        refused: list[Rejection] = []
        panes, rejected = self._top.commit(self._below.commit(commit, refused))
        return panes, [*refused, *rejected]

    def table(self) -> list[TableRow]:
        return self._top.table()

    def restart(self) -> Chain:
        self._below.restart()
        return Chain(self.view, self._top.restart(), self._below)


def chained(view: View, start: Callable[[View], Runner], fed: Collection[str] = ()) -> Runner:
    """What runs a view, with a chain below it where it reads views or operators.

    `fed` are streams whose rows come with the commits, whatever gives them otherwise.
    """
    below = Below((view.input,), start, fed)
    return start(view) if below.is_empty else Chain(view, start(view), below)


def is_made(stream: Stream) -> bool:
    """Whether an operator gives a stream."""
    return join_behind(stream) is not None or process_behind(stream) is not None


def far_sources(flows: Collection[Flow], fed: Collection[str] = ()) -> dict[str, Stream]:
    """The streams whose rows come from outside, below flows, through all views and operators."""
    sources: dict[str, Stream] = {}
    for source in (source for flow in flows for source in flow.sources):
        join, process = join_behind(source), process_behind(source)
        if isinstance(source, Changes):
            sources |= far_sources((source.of.input,), fed)
        elif source.name in fed or (join is None and process is None):
            sources[source.name] = source
        else:
            sources |= far_sources(join.flows if join is not None else (process.input,), fed)  # type: ignore[union-attr]
    return sources


def _own(runner: Runner, view: View, commit: Commit) -> Commit:
    """The commit as a view takes it that reads only streams of the script."""
    if isinstance(runner, Chain):
        return commit
    names = {source.name for source in view.input.sources}
    return replace(commit, events=tuple(event for event in commit.events if event.stream in names))
