"""A pattern as a processor: events wait until the watermark has passed them, and are matched in the order of time."""

from __future__ import annotations

import pickle
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.matching import Matcher, Run
from penstock.model.patterns import Match, Pattern, Taken
from penstock.model.plain import plain
from penstock.model.processor import Processor, Timer
from penstock.model.state import list_of, value
from penstock.model.time import Instant, instant, to_datetime

#: What is given out for a match of a key: a row, several, or none.
Give: TypeAlias = Callable[[Any, Match], Mapping[str, Any] | Iterable[Mapping[str, Any]] | None]
_JUST_AFTER = timedelta(microseconds=1)


def processor_of(pattern: Pattern, output: str, give: Give) -> type[Processor]:
    """The processor that finds a pattern, and gives out what `give` makes of each match."""
    pattern.check()
    schema = output
    if not callable(give):
        raise DefinitionError("what is given out for a match is a function", hint="give=lambda key, m: {…}")

    class Found(Processor):
        """Waits, sorts, matches."""

        output = schema
        waiting = list_of("binary")
        runs = value("binary")

        def on_event(self, key: Any, event: Any, time: Any) -> None:
            if time is None:
                raise DefinitionError("a pattern needs an event time", hint="say event_time='…' on the stream")
            self.waiting.append(pickle.dumps((instant(time), event._fields, tuple(event))))
            # Another event of just this time may still come, until the watermark is beyond it.
            self.set_timer(time + _JUST_AFTER)

        def on_timer(self, key: Any, timer: Timer) -> Iterator[Mapping[str, Any]]:
            before = instant(timer.at)
            matcher = restored(pattern, self.runs)
            waiting = [plain(one) for one in self.waiting]
            ready = sorted((one for one in waiting if one[0] < before), key=lambda one: one[0])
            later = [one for one in waiting if one[0] >= before]
            if ready:
                self.waiting[:] = [pickle.dumps(one) for one in later]
            matches = [m for at, names, values in ready for m in matcher.take(at, event_of(names, values))]
            matches += matcher.pass_time(before)
            if matcher.due is not None:
                self.set_timer(to_datetime(matcher.due) + _JUST_AFTER, name="unless")
            self.runs = saved(matcher) if matcher.runs else None
            for match in matches:
                yield from rows_of(give(key, match))

    Found.__name__ = Found.__qualname__ = "Pattern"
    return Found


def rows_of(given: Any) -> Iterable[Mapping[str, Any]]:
    if given is None:
        return ()
    return (given,) if isinstance(given, Mapping) else given


@lru_cache(maxsize=64)
def _event(names: tuple[str, ...]) -> Any:
    return namedtuple("Event", names, rename=True)


def event_of(names: tuple[str, ...], values: tuple[object, ...]) -> Any:
    """An event as conditions see it."""
    return _event(names)(*values)


# The open runs of a key, as bytes: each event once


def saved(matcher: Matcher) -> bytes:
    events: dict[int, tuple[Instant, tuple[str, ...], tuple[object, ...]]] = {}
    for run in matcher.runs:
        for one in run.match.taken:
            events[one.place] = one.at, one.event._fields, tuple(one.event)
    runs = [(run.match.places, sorted(run.closed), run.waits) for run in matcher.runs]
    return pickle.dumps((events, runs, matcher.places, matcher.barrier))


def restored(pattern: Pattern, stored: bytes | None) -> Matcher:
    if stored is None:
        return Matcher(pattern)
    events, runs, places, barrier = plain(stored)
    known = {place: (at, event_of(names, values)) for place, (at, names, values) in events.items()}
    found = [
        Run(
            Match(pattern, tuple(Taken(step, place, *known[place]) for place, step in taken)),
            frozenset(closed),
            waits,
        )
        for taken, closed, waits in runs
    ]
    return Matcher(pattern, found, places, barrier)
