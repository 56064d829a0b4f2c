"""Patterns: sequences of events of one key, in the order of their times.

A pattern is a row of steps, each with a name and a condition on the event and on what was matched before:

>>> drop = (
...     pattern("high", lambda e: e.price > 100)
...     .then("fall", lambda e, m: e.price < m.last("fall", "high").price, times="+")
...     .unless("news", lambda e: e.kind == "news")
...     .later("low", lambda e: e.price < 50)
...     .within("5 minutes")
... )
>>> print(drop)
high → fall+ · unless news … low within 5 minutes

A match gives each step as many events as its `times` allows, in the order of the steps. What may lie between two
events of a match depends on the step of the second one: `then` – nothing; `later` – events that it cannot take;
`sometime` – any. All such sequences are matches, those that begin alike too, unless `skip` says which to leave out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.time import Duration, Instant, positive, show_duration

#: A condition takes the event, or the event and the match so far.
Condition: TypeAlias = Callable[..., Any]
How: TypeAlias = Literal["then", "later", "sometime"]
_TIMES = {"1": (1, 1), "?": (0, 1), "+": (1, None), "*": (0, None)}
_LINKS = {"then": "→", "later": "…", "sometime": "⋯"}


@dataclass(frozen=True)
class Step:
    """One step: how many events it takes, and what may lie before each of them."""

    name: str
    condition: Condition
    least: int = 1
    most: int | None = 1
    how: How = "then"
    negated: bool = False
    greedy: bool = False
    sees_match: bool = False

    def holds(self, event: Any, match: Match) -> bool:
        return bool(self.condition(event, match) if self.sees_match else self.condition(event))

    @property
    def times(self) -> str:
        known = {bounds: sign for sign, bounds in _TIMES.items()}
        sign = known.get((self.least, self.most))
        most = "" if self.most is None else self.most
        return "" if sign == "1" else sign or f"{{{self.least},{most}}}"


@dataclass(frozen=True)
class Skip:
    """Which matches are left out after one: those that begin up to an event of it, or at the same one."""

    to: Literal["nothing", "next", "past last", "first", "last"]
    step: str | None = None

    def __str__(self) -> str:
        return self.to if self.step is None else f"{self.to} {self.step}"


@dataclass(frozen=True)
class Pattern:
    """Steps, within how much time of each other they lie, and what is left out after a match."""

    steps: tuple[Step, ...]
    span: Duration | None = None
    skipping: Skip = Skip("nothing")

    def then(self, name: str, condition: Condition, times: Times = 1, *, greedy: bool = False) -> Pattern:
        """The very next event."""
        return self._with(name, condition, times, "then", greedy)

    def later(self, name: str, condition: Condition, times: Times = 1, *, greedy: bool = False) -> Pattern:
        """The next event for which it holds."""
        return self._with(name, condition, times, "later", greedy)

    def sometime(self, name: str, condition: Condition, times: Times = 1, *, greedy: bool = False) -> Pattern:
        """Any later event for which it holds: each is a match of its own."""
        return self._with(name, condition, times, "sometime", greedy)

    def unless(self, name: str, condition: Condition) -> Pattern:
        """No event for which this holds lies between the step before and the next one.

        At the end of a pattern: none comes in the time that `within` leaves.
        """
        return replace(self, steps=(*self.steps, _step(self.steps, name, condition, 1, "later", negated=True)))

    def within(self, span: str | timedelta) -> Pattern:
        """The longest time from the first event of a match to its last."""
        return replace(self, span=positive(span, "within"))

    def skip(self, to: str) -> Pattern:
        """What is left out after a match.

        "next": matches that begin with the same event. "past last": those that begin before its last event is over.
        "first NAME", "last NAME": those that begin before the first or last event of a step. "nothing" is the default.
        """
        words = to.split()
        if to in ("nothing", "next", "past last"):
            return replace(self, skipping=Skip(to))  # type: ignore[arg-type]
        if len(words) == 2 and words[0] in ("first", "last") and words[1] in self.names:
            return replace(self, skipping=Skip(words[0], words[1]))  # type: ignore[arg-type]
        raise DefinitionError(
            f"skip({to!r}) is not known", hint="'nothing', 'next', 'past last', 'first NAME' or 'last NAME' of a step"
        )

    def _with(self, name: str, condition: Condition, times: Times, how: How, greedy: bool) -> Pattern:
        return replace(self, steps=(*self.steps, _step(self.steps, name, condition, times, how, greedy=greedy)))

    @property
    def names(self) -> tuple[str, ...]:
        """The steps that take events."""
        return tuple(step.name for step in self.steps if not step.negated)

    def check(self) -> Pattern:
        """Refuses a pattern that nothing, or that everything, would match."""
        if all(step.negated or step.least == 0 for step in self.steps):
            raise DefinitionError("a pattern needs a step that must be there", hint="times='+' instead of times='*'")
        if self.steps[0].negated:
            raise DefinitionError("a pattern begins with an event", hint="begin with pattern(name, condition)")
        if self.steps[-1].negated and self.span is None:
            raise DefinitionError(
                f"that '{self.steps[-1].name}' does not come is known only when its time is over",
                hint="set within='…'",
            )
        if self.steps[-1].greedy:
            raise DefinitionError(
                f"'{self.steps[-1].name}' is the last step: each event that it takes is a match",
                hint="leave out greedy",
            )
        return self

    def __str__(self) -> str:
        text = ""
        for step in self.steps:
            link = f" {_LINKS[step.how]} " if text else ""
            greedy = " greedy" if step.greedy else ""
            text += f" · unless {step.name}" if step.negated else f"{link}{step.name}{step.times}{greedy}"
        text += "" if self.span is None else f" within {show_duration(self.span)}"
        return text if self.skipping.to == "nothing" else f"{text} skip {self.skipping}"


Times: TypeAlias = int | str | tuple[int, int | None]


def pattern(name: str, condition: Condition, times: Times = 1, *, greedy: bool = False) -> Pattern:
    """A pattern begins: `pattern("login", lambda e: e.kind == "login")`."""
    return Pattern((_step((), name, condition, times, "then", greedy=greedy),))


def _step(
    before: Sequence[Step],
    name: str,
    condition: Condition,
    times: Times,
    how: How,
    *,
    negated: bool = False,
    greedy: bool = False,
) -> Step:
    if not re.fullmatch(r"[A-Za-z]\w*", name) or any(step.name == name for step in before):
        raise DefinitionError(f"a pattern cannot have a step '{name}' here", hint="use letters, each name once")
    if not callable(condition):
        raise DefinitionError(f"the condition of '{name}' is not a function", hint="lambda e: e.price > 100")
    least, most = _bounds(times)
    if least < 0 or (most is not None and most < max(least, 1)):
        raise DefinitionError(f"'{name}' cannot occur {times!r} times", hint="a number, '?', '+', '*' or (2, 5)")
    if before and before[-1].negated and negated:
        raise DefinitionError(
            f"'{before[-1].name}' and '{name}' exclude events at the same place", hint="join them: lambda e: … or …"
        )
    takes = sum(one.default is one.empty for one in inspect.signature(condition).parameters.values())
    if takes not in (1, 2):
        raise DefinitionError(f"the condition of '{name}' takes {takes} values", hint="lambda e: … or lambda e, m: …")
    return Step(name, condition, least, most, how, negated, greedy, takes == 2)


def _bounds(times: Times) -> tuple[int, int | None]:
    if isinstance(times, int):
        return times, times
    if isinstance(times, tuple):
        return times
    if times not in _TIMES:
        raise DefinitionError(f"times={times!r} is not known", hint="a number, '?', '+', '*' or (2, 5)")
    return _TIMES[times]


# What is matched


@dataclass(frozen=True)
class MatchedEvent:
    """An event at its place in the order of a key's events, and the step that took it."""

    step: int
    place: int
    at: Instant
    event: Any


@dataclass(frozen=True)
class Match:
    """Events by step. `m["fall"]` is a list; `m.last("fall", "high")` the last one of the first step that has any."""

    pattern: Pattern
    taken: tuple[MatchedEvent, ...] = ()

    def __getitem__(self, name: str) -> list[Any]:
        number = self._number(name)
        return [one.event for one in self.taken if one.step == number]

    def first(self, *names: str) -> Any:
        """The first event of a step; of several steps, the first that has any."""
        return next((events[0] for name in names if (events := self[name])), None)

    def last(self, *names: str) -> Any:
        """The last event of a step; of several steps, the first that has any."""
        return next((events[-1] for name in names if (events := self[name])), None)

    def count(self, name: str) -> int:
        return len(self[name])

    @property
    def start(self) -> Instant:
        return self.taken[0].at

    @property
    def end(self) -> Instant:
        return self.taken[-1].at

    def _number(self, name: str) -> int:
        for number, step in enumerate(self.pattern.steps):
            if step.name == name:
                return number
        raise DefinitionError(f"the pattern has no step '{name}'", hint=f"there are {', '.join(self.pattern.names)}")

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        return tuple((one.place, one.step) for one in self.taken)
