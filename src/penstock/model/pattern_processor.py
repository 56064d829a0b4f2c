"""A pattern as a processor: events wait until the watermark has passed them, and are matched in the order of time."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.cell import EVENT
from penstock.model.matching import Matcher, Run
from penstock.model.patterns import Match, MatchedEvent, Pattern
from penstock.model.plain_values import packed, unpacked
from penstock.model.processor import Events, Processor, Timer
from penstock.model.state import list_of, value
from penstock.model.time import Instant, instant

#: A row: a dictionary, or a tuple of its values in the order of the columns.
Row: TypeAlias = Mapping[str, Any] | tuple[Any, ...]
#: What is given out for a match of a key: a row, several, or none.
Give: TypeAlias = Callable[[Any, Match], Row | Iterable[Row] | None]
#: The one timer: when the first event that waits can be matched, or the time of something is over.
_NEXT: Final = "next"
#: A timer that fires at the end of a stream.
_LAST: Final = instant(datetime.max.replace(tzinfo=UTC))


def processor_of(pattern: Pattern, output: str, give: Give) -> type[Processor]:
    """The processor that finds a pattern, and gives out what `give` makes of each match."""
    pattern.check()
    schema, text = output, str(pattern)
    if not callable(give):
        raise DefinitionError("what is given out for a match is a function", hint="give=lambda key, m: {…}")

    class PatternProcessor(Processor):
        """Waits, sorts, matches. An event on which a condition fails is left out, with a dead letter."""

        output = schema
        final_rows_only = True
        usual_hold = pattern.span
        finds = text
        batches = list_of("binary")  # events that wait, packed as they came together
        matcher = value("binary")

        def on_events(self, key: Any, events: Events) -> None:
            if None in events.times:
                raise DefinitionError("a pattern needs an event time", hint="set event_time='…' on the stream")
            ats = [instant(time) for time in events.times if time is not None]
            rows = [[at, *event] for at, event in zip(ats, events, strict=True)]
            self.batches.append(packed([events[0]._fields, rows]))
            self._look_at(min(ats) + 1)  # another event of just this time may come until the watermark is beyond it

        def on_timer(self, key: Any, timer: Timer) -> Iterator[Row]:
            before, matcher = self._there.mark, restored(pattern, self.matcher)
            ready = self._ready(before)
            for at, event in ready:
                yield from self._given(key, matcher.pass_time(at))
                try:
                    matches = matcher.take(at, event)
                except Exception as error:  # whatever it is, it concerns this event
                    self._there.fail(f"{type(error).__name__}: {error}, on {event}")
                else:
                    yield from self._given(key, matches)
            yield from self._given(key, matcher.pass_time(before))
            if matcher.due is not None:
                self._look_at(min(matcher.due + 1, _LAST))
            self.matcher = saved(matcher) if matcher.runs or matcher.pending else None

        def _look_at(self, at: Instant) -> None:
            """Moves the timer to an instant, if it is not set to an earlier one."""
            cell = self._there.cell
            known = cell.timers.get((EVENT, _NEXT))
            if known is None or at < known:
                cell.set_timer((EVENT, _NEXT), at)

        def _ready(self, before: Instant) -> list[tuple[Instant, Any]]:
            """The events that the watermark has passed, in order; the others go on waiting."""
            ready: list[tuple[Instant, Any]] = []
            later = []
            for batch in self.batches:
                names, rows = unpacked(batch)
                ready += [(at, event_of(names, values)) for at, *values in rows if at < before]
                left = [row for row in rows if row[0] >= before]
                if left:
                    later.append(batch if len(left) == len(rows) else packed([names, left]))
                    self._look_at(min(row[0] for row in left) + 1)
            self.batches = later
            return sorted(ready, key=lambda one: one[0])

        def _given(self, key: Any, matches: list[Match]) -> Iterator[Row]:
            for match in matches:
                try:
                    rows = list(rows_of(give(key, match)))
                except Exception as error:
                    events = [one.event for one in match.taken]
                    self._there.fail(f"{type(error).__name__}: {error}, on the match {events}")
                else:
                    yield from rows

    PatternProcessor.__name__ = PatternProcessor.__qualname__ = "Pattern"
    return PatternProcessor


def rows_of(result: Any) -> Iterable[Row]:
    """The rows that were returned for a match.

    >>> list(rows_of(("ann", 3))), list(rows_of([("ann", 3), {"user": "bob"}])), list(rows_of(None))
    ([('ann', 3)], [('ann', 3), {'user': 'bob'}], [])
    """
    if result is None:
        return ()
    is_row = isinstance(result, Mapping) or (isinstance(result, tuple) and not _are_rows(result))
    return (result,) if is_row else result


def _are_rows(values: tuple[Any, ...]) -> bool:
    return bool(values) and all(isinstance(value, (Mapping, tuple)) for value in values)


@lru_cache(maxsize=64)
def _event(names: tuple[str, ...]) -> Any:
    return namedtuple("Event", names, rename=True)


def event_of(names: Iterable[str], values: Iterable[object]) -> Any:
    """An event as conditions see it."""
    return _event(tuple(names))._make(values)


# The open runs of a key, as bytes: each event once, and each list of names


def saved(matcher: Matcher) -> bytes:
    matches = [*(run.match for run in matcher.runs), *matcher.pending]
    by_place = {one.place: one for match in matches for one in match.taken}
    names = list(dict.fromkeys(one.event._fields for one in by_place.values()))
    events = [[one.place, one.at, names.index(one.event._fields), *one.event] for one in by_place.values()]
    runs = [[run.match.places, sorted(run.closed), run.waits] for run in matcher.runs]
    return packed([names, events, runs, matcher.places, [match.places for match in matcher.pending]])


def restored(pattern: Pattern, stored: bytes | None) -> Matcher:
    if stored is None:
        return Matcher(pattern)
    names, events, runs, places, pending = unpacked(stored)
    known = {place: (at, event_of(names[number], values)) for place, at, number, *values in events}

    def match(positions: Iterable[tuple[int, int]]) -> Match:
        return Match(pattern, tuple(MatchedEvent(step, place, *known[place]) for place, step in positions))

    open_runs = [Run(match(positions), frozenset(closed), waits) for positions, closed, waits in runs]
    return Matcher(pattern, open_runs, places, [match(positions) for positions in pending])
