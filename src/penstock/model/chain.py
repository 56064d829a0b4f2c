"""A view over views, commit by commit: each takes its step after those that it reads, in the same commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from penstock.model.changes import below, carried, change_events
from penstock.model.commits import Commit, Event, Pane, Refused, TableRow
from penstock.model.time import Instant
from penstock.model.view import View


class Runner(Protocol):
    """What runs one view."""

    @property
    def watermark(self) -> Instant: ...
    def commit(self, commit: Commit) -> tuple[list[Pane], list[Refused]]: ...
    def table(self) -> list[TableRow]: ...
    def restart(self) -> Runner: ...


class Chain:
    """Runs a view with all views below it. What it tells is about the view on top."""

    def __init__(self, view: View, start: Callable[[View], Runner]) -> None:
        self.view = view
        self._below: dict[str, Runner] = {name: chained(other, start) for name, other in below(view.input).items()}
        self._top = start(view)
        self._events = dict.fromkeys(self._below, 0)

    @property
    def watermark(self) -> Instant:
        return self._top.watermark

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Refused]]:
        mine = {source.name for source in self.view.input.sources}
        events: list[Event] = [event for event in commit.events if event.stream in mine]
        fixed = dict(commit.fixed)
        for name, runner in self._below.items():
            view = below(self.view.input)[name]
            panes, _ = runner.commit(_for(view, commit))
            events += change_events(name, view, panes, self._events[name])
            self._events[name] += len(panes)
            fixed[name] = carried(view, runner.watermark)
        return self._top.commit(replace(commit, events=tuple(events), fixed=fixed))

    def table(self) -> list[TableRow]:
        return self._top.table()

    def restart(self) -> Chain:
        other = Chain.__new__(Chain)
        other.view, other._events = self.view, dict(self._events)
        other._below = {name: runner.restart() for name, runner in self._below.items()}
        other._top = self._top.restart()
        return other


def chained(view: View, start: Callable[[View], Runner]) -> Runner:
    """What runs a view: with a chain below it, where it reads other views."""
    return Chain(view, start) if below(view.input) else start(view)


def _for(view: View, commit: Commit) -> Commit:
    """The commit as a view below takes it: with the events of its own streams, or of those below it."""
    if below(view.input):
        return commit
    names = {source.name for source in view.input.sources}
    return replace(commit, events=tuple(event for event in commit.events if event.stream in names))
