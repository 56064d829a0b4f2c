"""Finds the matches of a pattern as events come, in the order of their times: a run for each way that is still open.

A run is a match so far. An event that a step may take makes a longer run of it; what remains of the old run waits for
other events, as the steps that it waits for allow. Nothing of the past is looked at again, so that what is kept follows
the runs that are open, not the events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.patterns import Match, Pattern, Taken
from penstock.model.time import Instant


@dataclass(frozen=True)
class Run:
    """A match so far. `closed` are steps that it cannot go on with any more; `waits`: it only waits for its time."""

    match: Match
    closed: frozenset[int] = frozenset()
    waits: bool = False

    @property
    def step(self) -> int:
        return self.match.taken[-1].step

    @property
    def count(self) -> int:
        """How many events the step at hand has."""
        return sum(one.step == self.step for one in self.match.taken)


@dataclass
class Matcher:
    """The open runs of one key. Events are given in order; `pass_time` says that no event before an instant comes."""

    pattern: Pattern
    runs: list[Run] = field(default_factory=list)
    places: int = 0
    barrier: int = -1  # matches that begin up to here are left out
    banned: set[int] = field(default_factory=set)  # and those that begin at one of these

    def take(self, at: Instant, event: Any) -> Iterator[Match]:
        """The matches that an event completes; before them those whose time is over."""
        yield from self.pass_time(at)
        place, self.places = self.places, self.places + 1
        found: list[Run] = []
        done: list[Match] = []
        empty = Run(Match(self.pattern))
        for run in [*self.runs, empty]:
            longer, left = self._on(run, Taken(0, place, at, event))
            for one in longer:
                found += [one] if self._targets(one) else []
                if self._is_whole(one) and self.pattern.steps[-1].negated:
                    found.append(replace(one, waits=True))
                elif self._is_whole(one):
                    done.append(one.match)
            found += [] if left is None else [left]
        self.runs = found
        yield from self._shown(done)

    def pass_time(self, before: Instant) -> Iterator[Match]:
        """Ends the runs that have no time left; those that waited for just that are matches."""
        span = self.pattern.span
        if span is None:
            return
        over = [run for run in self.runs if run.match.start + span < before]
        if over:
            self.runs = [run for run in self.runs if run.match.start + span >= before]
            yield from self._shown([run.match for run in over if run.waits])

    @property
    def due(self) -> Instant | None:
        """Until when some run waits for its time to be over."""
        span = self.pattern.span
        return None if span is None else min((run.match.start + span for run in self.runs if run.waits), default=None)

    # one run, one event

    def _on(self, run: Run, event: Taken) -> tuple[list[Run], Run | None]:
        """The longer runs that an event makes of a run, and what remains of it."""
        if run.waits:
            return [], None if self.pattern.steps[-1].holds(event.event, run.match) else run
        first = not run.match.taken
        longer: list[Run] = []
        closed = set(run.closed)
        looped = False
        for number in self._targets(run):
            if number in closed:
                continue
            step = self.pattern.steps[number]
            again = not first and number == run.step
            if looped and not again:
                break  # a greedy step takes it, and nobody else
            if step.holds(event.event, run.match):
                taken = replace(event, step=number)
                longer.append(Run(Match(self.pattern, (*run.match.taken, taken))))
                looped = again and step.greedy
                if step.how == "later":
                    closed.add(number)
            if step.how == "then":
                closed.add(number)
        if first or looped:
            return longer, None
        closed |= self._forbidden(run, event)
        left = replace(run, closed=frozenset(closed))
        return longer, left if set(self._targets(left)) - closed else None

    def _targets(self, run: Run) -> list[int]:
        """The steps that may take the next event: the one at hand first, then those behind it."""
        steps = self.pattern.steps
        found: list[int] = []
        start = 0
        if run.match.taken:
            here = steps[run.step]
            if here.most is None or run.count < here.most:
                found.append(run.step)
            if run.count < here.least:
                return found
            start = run.step + 1
        for number in range(start, len(steps)):
            if steps[number].negated:
                continue
            found.append(number)
            if steps[number].least > 0:
                break
        return found

    def _forbidden(self, run: Run, event: Taken) -> set[int]:
        """The steps that a run cannot reach any more, since a forbidden event lies before them."""
        for number in range(run.step + 1, len(self.pattern.steps)):
            step = self.pattern.steps[number]
            if step.negated and step.holds(event.event, run.match):
                return set(range(number + 1, len(self.pattern.steps)))
        return set()

    def _is_whole(self, run: Run) -> bool:
        """Whether all steps behind the one at hand may be left out."""
        behind = self.pattern.steps[run.step + 1 :]
        return run.count >= self.pattern.steps[run.step].least and all(
            step.negated or not step.least for step in behind
        )

    # what is left out

    def _shown(self, matches: list[Match]) -> Iterator[Match]:
        for match in sorted(matches, key=lambda one: (one.taken[-1].place, one.taken[0].place, one.places)):
            if self._is_left_out(match):
                continue
            self._skip(match)
            yield match
        self.runs = [run for run in self.runs if not self._is_left_out(run.match)]
        self.banned.clear()  # nothing begins there any more

    def _is_left_out(self, match: Match) -> bool:
        start = match.taken[0].place
        return start <= self.barrier or start in self.banned

    def _skip(self, match: Match) -> None:
        skip = self.pattern.skipping
        if skip.to == "next":
            self.banned.add(match.taken[0].place)
        elif skip.to == "past last":
            self.barrier = max(self.barrier, match.taken[-1].place)
        elif skip.step is not None:
            mine = [one.place for one in match.taken if self.pattern.steps[one.step].name == skip.step]
            if mine:
                place = mine[0] if skip.to == "first" else mine[-1]
                self.barrier = max(self.barrier, place - 1)
