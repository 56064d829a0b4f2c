"""Finds the matches of a pattern as events come, in the order of their times: a run for each way that is still open.

A run is a match so far. An event that a step may take makes a longer run of it; what remains of the old run waits for
other events, as the steps that it waits for allow. Nothing of the past is looked at again, so that what is kept follows
the runs that are open, not the events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.patterns import Match, MatchedEvent, Pattern
from penstock.model.time import END, Instant


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
    """The open runs of one key, and matches that wait for runs that began before them.

    Events are given in order; `pass_time` says that no event before an instant comes.
    """

    pattern: Pattern
    runs: list[Run] = field(default_factory=list)
    places: int = 0
    pending: list[Match] = field(default_factory=list)

    def take(self, at: Instant, event: Any) -> list[Match]:
        """The matches that are known with an event; before them those whose time is over."""
        matches = self.pass_time(at)
        runs: list[Run] = []
        done: list[Match] = []
        for run in [*self.runs, Run(Match(self.pattern))]:
            longer, left = self._on(run, MatchedEvent(0, self.places, at, event))
            for one in longer:
                runs += [one] if self._targets(one) else []
                if self._is_whole(one) and self.pattern.steps[-1].negated:
                    runs.append(replace(one, waits=True))
                elif self._is_whole(one):
                    done.append(one.match)
            runs += [] if left is None else [left]
        self.runs, self.places = runs, self.places + 1
        return matches + self._known(done)

    def pass_time(self, before: Instant) -> list[Match]:
        """Ends the runs that have no time left, at `END` all; those that waited for just that are matches."""
        span = self.pattern.span
        if before < END and span is None:
            return []
        left: list[Run] = []
        over: list[Run] = []
        for run in self.runs:
            (over if before >= END or run.match.start + (span or 0) < before else left).append(run)
        self.runs = left
        return self._known([run.match for run in over if run.waits]) if over else []

    @property
    def due(self) -> Instant | None:
        """Until when some run waits for its time to be over, or some match for the time of a run."""
        span = self.pattern.span
        if span is None:
            return END if self.pending else None
        waiting = (run for run in self.runs if run.waits or self.pending)
        return min((run.match.start + span for run in waiting), default=None)

    # one run, one event

    def _on(self, run: Run, event: MatchedEvent) -> tuple[list[Run], Run | None]:
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
                match = replace(event, step=number)
                longer.append(Run(Match(self.pattern, (*run.match.taken, match))))
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
        targets: list[int] = []
        start = 0
        if run.match.taken:
            here = steps[run.step]
            if here.most is None or run.count < here.most:
                targets.append(run.step)
            if run.count < here.least:
                return targets
            start = run.step + 1
        for number in range(start, len(steps)):
            if steps[number].negated:
                continue
            targets.append(number)
            if steps[number].least > 0:
                break
        return targets

    def _forbidden(self, run: Run, event: MatchedEvent) -> set[int]:
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

    # what is skipped

    def _known(self, complete: list[Match]) -> list[Match]:
        """The matches that are given out, of those that are complete now and those that waited.

        Matches are taken in the order in which they begin, and of those that begin alike the one that is complete
        first. So a match waits while another one that began before it may still skip it.
        """
        self.pending += complete
        if self.pattern.skipping.to == "nothing":
            shown = sorted(self.pending, key=lambda one: (one.taken[-1].place, one.taken[0].place, one.places))
            self.pending = []
            return shown
        left = sorted(self.pending, key=lambda one: (one.taken[0].place, one.taken[-1].place, one.places))
        shown, self.pending = [], []
        while left:
            match = left.pop(0)
            start = match.taken[0].place
            if self._may_be_skipped(start):
                self.pending.append(match)
                continue
            shown.append(match)
            skipped = range(start, self._skips_to(match) + 1)
            left = [one for one in left if one.taken[0].place not in skipped]
            self.runs = [run for run in self.runs if run.match.taken[0].place not in skipped]
        return shown

    def _may_be_skipped(self, start: int) -> bool:
        """Whether something that began before a place, and is not decided yet, may skip what begins there."""
        runs = (run for run in self.runs if run.match.taken[0].place < start)
        earlier = (match for match in self.pending if match.taken[0].place < start)
        return any(self._may_skip_to(run) >= start for run in runs) or any(
            self._skips_to(match) >= start for match in earlier
        )

    def _skips_to(self, match: Match) -> int:
        """The last place up to which what begins with a match, or after it, is skipped."""
        skip = self.pattern.skipping
        if skip.to == "next":
            return match.taken[0].place
        if skip.to == "past last":
            return match.taken[-1].place
        own = [one.place for one in match.taken if self.pattern.steps[one.step].name == skip.step]
        return -1 if not own else (own[0] if skip.to == "first" else own[-1]) - 1

    def _may_skip_to(self, run: Run) -> int:
        """The same for the matches that a run may become."""
        skip = self.pattern.skipping
        known = self._skips_to(run.match)
        if run.waits or skip.to == "next":
            return known
        if skip.to == "past last":
            return self.places
        if skip.to == "first" and known >= 0:
            return known
        names = [step.name for step in self.pattern.steps]
        target = names.index(str(skip.step))
        open_loop = target == run.step and target in self._targets(run) and target not in run.closed
        return self.places if run.step < target or open_loop else known
