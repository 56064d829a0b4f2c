"""*When* in processing time a window's panes fire.

A trigger is a small value and five functions on its state, all judged once a commit:
`start` (the state of a fresh trigger), `add` (elements came), `merge` (windows became one), `ready` (should a pane fire
now?) and `fired` (a pane fired: the next state, and whether the trigger has finished). A finished trigger fires no more
panes; the view's table goes on regardless. `over` and `stays` say the same of a window that has just opened, and of one
that has absorbed others.

>>> on_time(early=every("10 seconds"), late=after_count(10))
ps.on_time(early=ps.every('10 seconds'), late=ps.after_count(10))
>>> trigger = repeatedly(after_count(3))
>>> state = trigger.add(trigger.start(Moment(now=0)), 5, Moment(now=0))
>>> trigger.ready(state, Moment(now=0))
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.time import Duration, Instant, not_negative, positive, show_duration
from penstock.model.windows.base import Window

State: TypeAlias = Any


@dataclass(frozen=True)
class Moment:
    """What a trigger may know of one window at the end of a commit."""

    now: Instant
    complete: bool = False  # the watermark has reached the window's end, or a count window is full
    closed: bool = False  # no element can be added any more
    complete_to: Callable[[float], bool] = lambda percent: False  # the same as `complete`, by a percentile watermark


@dataclass(frozen=True, repr=False)
class Trigger(ABC):
    """When panes fire. Compose with `any_of`, `all_of`, `in_turn`, `repeatedly` and `.or_finally(…)`."""

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return ()

    def or_finally(self, last: Trigger) -> OrFinally:
        """This trigger until `last` fires, and then no more."""
        return OrFinally(self, last)

    def check(self, window: Window, percentile: bool) -> None:
        """Refuses a trigger that can never fire in such windows."""
        for part in self.parts:
            part.check(window, percentile)

    def start(self, moment: Moment) -> State:
        return None

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return state

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        """The state of a window that has absorbed others; `moment` is judged by the watermark before the commit."""
        return states[0]

    @abstractmethod
    def ready(self, state: State, moment: Moment) -> bool: ...

    @abstractmethod
    def fired(self, state: State, moment: Moment) -> tuple[State, bool]: ...

    def over(self, state: State) -> bool:
        """Whether it has finished as it starts, because the window opened after its end. `state` is its start."""
        return False

    def stays(self, state: State, moment: Moment) -> bool:
        """Whether it is still finished after a merge of windows in all of which it was. `state` is the merged one."""
        return True

    @property
    def ends_with_window(self) -> bool:
        """Whether it can finish only once the window is complete: if the window's end moves, it is not finished."""
        return False

    def shows_rest(self, state: State) -> bool:
        """Whether a window that closes with elements that no pane has shown fires one last pane for them."""
        return True

    @property
    def fires_unchanged(self) -> bool:
        """Whether the on-time pane fires also when there is nothing new to show."""
        return any(part.fires_unchanged for part in self.parts)


# The leaves


@dataclass(frozen=True, repr=False)
class AfterCount(Trigger):
    """Once, when `count` elements came; the state is how many there are."""

    count: int

    def start(self, moment: Moment) -> State:
        return 0

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return state + elements

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        return sum(states)

    def ready(self, state: State, moment: Moment) -> bool:
        return bool(state >= self.count)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return state, True

    def __repr__(self) -> str:
        return f"ps.after_count({self.count})"


@dataclass(frozen=True, repr=False)
class AfterDelay(Trigger):
    """Once, a while of processing time after the first element; the state is when that came."""

    delay: Duration

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return moment.now if state is None else state

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        return min((s for s in states if s is not None), default=None)

    def due(self, since: Instant) -> Instant:
        return since + self.delay

    def ready(self, state: State, moment: Moment) -> bool:
        return state is not None and moment.now >= self.due(state)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return state, True

    def __repr__(self) -> str:
        return f"ps.after_delay({show_duration(self.delay)!r})"


@dataclass(frozen=True, repr=False)
class Every(AfterDelay):
    """Again and again, at the multiples of a period of processing time, while there is something new to show."""

    def due(self, since: Instant) -> Instant:
        return since - since % self.delay + self.delay

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return None, False

    def __repr__(self) -> str:
        return f"ps.every({show_duration(self.delay)!r})"


@dataclass(frozen=True, repr=False)
class Completeness(Trigger):
    """Once, when by the percentile watermark `percent` of the window's elements should be there."""

    percent: float

    def check(self, window: Window, percentile: bool) -> None:
        if not window.ends_in_event_time:
            raise _never(self, f"{window!r} has no end in event time")
        if not percentile:
            raise DefinitionError(
                f"{self!r} can never fire: the stream does not measure how late its events are",
                hint="give every stream of the view watermark=ps.percentile(…)",
            )

    def ready(self, state: State, moment: Moment) -> bool:
        return moment.complete or moment.complete_to(self.percent)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return state, True

    def __repr__(self) -> str:
        return f"ps.after_completeness({self.percent:g})"


@dataclass(frozen=True, repr=False)
class OnClose(Trigger):
    """Once, when the window closes and its value is final."""

    def check(self, window: Window, percentile: bool) -> None:
        if not window.ends:
            raise _never(self, f"{window!r} never ends")

    def ready(self, state: State, moment: Moment) -> bool:
        return moment.closed

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return state, True

    def __repr__(self) -> str:
        return "ps.on_close()"


@dataclass(frozen=True, repr=False)
class Never(Trigger):
    """No panes at all: the view is a table only."""

    def ready(self, state: State, moment: Moment) -> bool:
        return False

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return state, False

    def shows_rest(self, state: State) -> bool:
        return False

    def __repr__(self) -> str:
        return "ps.never()"


# The compositions


@dataclass(frozen=True, repr=False)
class OnTime(Trigger):
    """When the window is complete; before that `early`, after it `late`, each again and again.

    The state is (passed, state of early, state of late). A window that late elements open after its end has passed it
    from the start: what fires there is up to `late`. With `late=never()` it finishes with the pane on time, else never.
    """

    early: Trigger = Never()
    late: Trigger = AfterCount(1)
    unchanged: str = "fire"

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.early, self.late)

    def check(self, window: Window, percentile: bool) -> None:
        if not window.ends:
            raise _never(self, f"{window!r} is never complete")
        super().check(window, percentile)

    def start(self, moment: Moment) -> State:
        return (moment.complete, self.early.start(moment), self.late.start(moment))

    def add(self, state: State, elements: int, moment: Moment) -> State:
        passed, early, late = state
        if passed:
            return passed, early, self.late.add(late, elements, moment)
        return passed, self.early.add(early, elements, moment), late

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        passed = moment.complete and all(s[0] for s in states)
        return (
            passed,
            self.early.merge([s[1] for s in states], moment),
            self.late.merge([s[2] for s in states], moment),
        )

    def ready(self, state: State, moment: Moment) -> bool:
        passed, early, late = state
        if passed:
            return self.late.ready(late, moment)
        return moment.complete or self.early.ready(early, moment)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        passed, early, late = state
        if passed:
            return (True, early, _again(self.late, late, moment)), False
        if moment.complete:
            return (True, self.early.start(moment), self.late.start(moment)), self.ends_with_window
        return (False, _again(self.early, early, moment), late), False

    def over(self, state: State) -> bool:
        return self.ends_with_window and bool(state[0])

    def stays(self, state: State, moment: Moment) -> bool:
        return moment.complete

    @property
    def ends_with_window(self) -> bool:
        return self.late == Never()

    def shows_rest(self, state: State) -> bool:
        return self.late.shows_rest(state[2])

    @property
    def fires_unchanged(self) -> bool:
        return self.unchanged == "fire"

    def __repr__(self) -> str:
        arguments = []
        if self.early != Never():
            arguments.append(f"early={self.early!r}")
        if self.late != AfterCount(1):
            arguments.append(f"late={self.late!r}")
        if self.unchanged != "fire":
            arguments.append(f"unchanged={self.unchanged!r}")
        return f"ps.on_time({', '.join(arguments)})"


@dataclass(frozen=True, repr=False)
class Repeatedly(Trigger):
    """A trigger that starts afresh each time it finishes."""

    part: Trigger

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.part,)

    def start(self, moment: Moment) -> State:
        return self.part.start(moment)

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return self.part.add(state, elements, moment)

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        return self.part.merge(states, moment)

    def ready(self, state: State, moment: Moment) -> bool:
        return self.part.ready(state, moment)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        return _again(self.part, state, moment), False

    def shows_rest(self, state: State) -> bool:
        return self.part.shows_rest(state)

    def __repr__(self) -> str:
        return "ps.each()" if self.part == AfterCount(1) else f"ps.repeatedly({self.part!r})"


@dataclass(frozen=True, repr=False)
class Several(Trigger):
    """Triggers side by side; the state is the parts' states, each with whether it has finished."""

    several: tuple[Trigger, ...]

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.several

    def start(self, moment: Moment) -> State:
        states = [part.start(moment) for part in self.several]
        return tuple((state, part.over(state)) for part, state in zip(self.several, states, strict=True))

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return tuple((part.add(s, elements, moment), done) for part, (s, done) in zip(self.several, state, strict=True))

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        merged = [part.merge([s[i][0] for s in states], moment) for i, part in enumerate(self.several)]
        return tuple(
            (state, all(s[i][1] for s in states) and part.stays(state, moment))
            for i, (part, state) in enumerate(zip(self.several, merged, strict=True))
        )

    def advance(self, state: State, moment: Moment) -> State:
        """Tells the parts that were ready that a pane fired."""
        return tuple(
            part.fired(s, moment) if not done and part.ready(s, moment) else (s, done)
            for part, (s, done) in zip(self.several, state, strict=True)
        )


@dataclass(frozen=True, repr=False)
class AnyOf(Several):
    """When any of its parts fires; finished when one of them is."""

    def ready(self, state: State, moment: Moment) -> bool:
        return any(part.ready(s, moment) for part, (s, _) in zip(self.several, state, strict=True))

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        after = self.advance(state, moment)
        return after, any(done for _, done in after)

    def over(self, state: State) -> bool:
        return any(done for _, done in state)

    def stays(self, state: State, moment: Moment) -> bool:
        return self.over(state) or not any(part.ends_with_window for part in self.several)

    @property
    def ends_with_window(self) -> bool:
        return all(part.ends_with_window for part in self.several)

    def shows_rest(self, state: State) -> bool:
        return any(part.shows_rest(s) for part, (s, _) in zip(self.several, state, strict=True))

    def __repr__(self) -> str:
        return f"ps.any_of({', '.join(map(repr, self.several))})"


@dataclass(frozen=True, repr=False)
class AllOf(Several):
    """When all of its parts would fire, or have; finished when all of them are."""

    def ready(self, state: State, moment: Moment) -> bool:
        return all(done or part.ready(s, moment) for part, (s, done) in zip(self.several, state, strict=True))

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        after = self.advance(state, moment)
        return after, all(done for _, done in after)

    def over(self, state: State) -> bool:
        return all(done for _, done in state)

    def stays(self, state: State, moment: Moment) -> bool:
        return self.over(state)

    @property
    def ends_with_window(self) -> bool:
        return any(part.ends_with_window for part in self.several)

    def shows_rest(self, state: State) -> bool:
        return all(part.shows_rest(s) for part, (s, _) in zip(self.several, state, strict=True))

    def check(self, window: Window, percentile: bool) -> None:
        _refuse_never(self)
        super().check(window, percentile)

    def __repr__(self) -> str:
        return f"ps.all_of({', '.join(map(repr, self.several))})"


@dataclass(frozen=True, repr=False)
class InTurn(Trigger):
    """One part after the other has finished; the state is (which, its state)."""

    several: tuple[Trigger, ...]

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.several

    def start(self, moment: Moment) -> State:
        return self._from(0, moment)

    def _from(self, first: int, moment: Moment) -> State:
        """The start of the first part from there on that is not over already, or else of the last."""
        for turn in range(first, len(self.several) - 1):
            state = self.several[turn].start(moment)
            if not self.several[turn].over(state):
                return turn, state
        return len(self.several) - 1, self.several[-1].start(moment)

    def add(self, state: State, elements: int, moment: Moment) -> State:
        turn, inner = state
        return turn, self.several[turn].add(inner, elements, moment)

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        """The window that is least far decides whose turn it is; those further on have nothing to add to that turn.

        A part that had finished with the end of its window has its turn again if the merged window's end is to come.
        """
        turn = min(s[0] for s in states)
        for again in range(turn if not moment.complete else 0):
            if self.several[again].ends_with_window:
                return again, self.several[again].start(moment)
        return turn, self.several[turn].merge([s[1] for s in states if s[0] == turn], moment)

    def ready(self, state: State, moment: Moment) -> bool:
        turn, inner = state
        return bool(self.several[turn].ready(inner, moment))

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        turn, inner = state
        inner, done = self.several[turn].fired(inner, moment)
        if not done:
            return (turn, inner), False
        if turn + 1 == len(self.several):
            return (turn, inner), True
        after = self._from(turn + 1, moment)
        return after, self.over(after)

    def over(self, state: State) -> bool:
        return state[0] + 1 == len(self.several) and bool(self.several[-1].over(state[1]))

    def stays(self, state: State, moment: Moment) -> bool:
        return state[0] + 1 == len(self.several) and bool(self.several[-1].stays(state[1], moment))

    @property
    def ends_with_window(self) -> bool:
        return any(part.ends_with_window for part in self.several)

    def shows_rest(self, state: State) -> bool:
        return bool(self.several[state[0]].shows_rest(state[1]))

    def check(self, window: Window, percentile: bool) -> None:
        _refuse_never(self)
        super().check(window, percentile)

    def __repr__(self) -> str:
        return f"ps.in_turn({', '.join(map(repr, self.several))})"


@dataclass(frozen=True, repr=False)
class OrFinally(Trigger):
    """The first part's panes until the second fires one, which is the last; the state is both states."""

    part: Trigger
    last: Trigger

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.part, self.last)

    def start(self, moment: Moment) -> State:
        return (self.part.start(moment), self.last.start(moment))

    def add(self, state: State, elements: int, moment: Moment) -> State:
        return self.part.add(state[0], elements, moment), self.last.add(state[1], elements, moment)

    def merge(self, states: Sequence[State], moment: Moment) -> State:
        return self.part.merge([s[0] for s in states], moment), self.last.merge([s[1] for s in states], moment)

    def ready(self, state: State, moment: Moment) -> bool:
        return self.part.ready(state[0], moment) or self.last.ready(state[1], moment)

    def fired(self, state: State, moment: Moment) -> tuple[State, bool]:
        if self.last.ready(state[1], moment):
            return state, True
        inner, done = self.part.fired(state[0], moment)
        return (inner, state[1]), done

    def over(self, state: State) -> bool:
        return self.part.over(state[0]) or self.last.over(state[1])

    def shows_rest(self, state: State) -> bool:
        return self.part.shows_rest(state[0]) or self.last.shows_rest(state[1])

    def __repr__(self) -> str:
        return f"{self.part!r}.or_finally({self.last!r})"


def _again(part: Trigger, state: State, moment: Moment) -> State:
    """The state after a firing of a trigger that is repeated."""
    state, done = part.fired(state, moment)
    return part.start(moment) if done else state


def _unrepeated(trigger: Trigger) -> Trigger:
    """`on_time` repeats its parts anyway: the same trigger is the same value."""
    (part,) = _triggers("on_time", (trigger,))
    while isinstance(part, Repeatedly):
        part = part.part
    return part


def _never(trigger: Trigger, why: str) -> DefinitionError:
    return DefinitionError(
        f"{trigger!r} can never fire: {why}",
        hint="use ps.each(), ps.after_count(n) or ps.every(period), or another window",
    )


def _refuse_never(trigger: Trigger) -> None:
    if Never() in trigger.parts:
        raise DefinitionError(f"{trigger!r} can never fire: one of its parts is ps.never()", hint="leave that part out")


def _triggers(name: str, parts: tuple[Trigger, ...]) -> tuple[Trigger, ...]:
    if not parts or not all(isinstance(part, Trigger) for part in parts):
        raise DefinitionError(
            f"ps.{name}(…) takes triggers", hint="for example ps.after_count(100), ps.every('1 minute')"
        )
    return parts


# What a user writes


def on_time(*, early: Trigger | None = None, late: Trigger | None = None, unchanged: str = "fire") -> OnTime:
    """When the watermark reaches the window's end (or a count window is full).

    `early` fires again and again before that (default: not at all), `late` after it, until the window closes (default:
    `each()`, at every commit that brings late elements; `never()`: not at all). The on-time pane fires also when an
    early pane has already shown the same; `unchanged="skip"` leaves it out then. With `late=never()` the trigger has
    finished after the on-time pane; else it never finishes.
    """
    if unchanged not in ("fire", "skip"):
        raise DefinitionError(f"unchanged={unchanged!r}", hint="write unchanged='fire' or unchanged='skip'")
    return OnTime(
        Never() if early is None else _unrepeated(early),
        AfterCount(1) if late is None else _unrepeated(late),
        unchanged,
    )


def after_count(count: int) -> AfterCount:
    """Once, at the first commit with at least `count` elements since the trigger started."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DefinitionError(f"ps.after_count takes a whole number above zero, not {count!r}")
    return AfterCount(count)


def each() -> Repeatedly:
    """At every commit that brings elements."""
    return Repeatedly(AfterCount(1))


def every(period: str | timedelta) -> Every:
    """At the multiples of a period of processing time, while there is something new to show."""
    return Every(positive(period, "the period of ps.every"))


def after_delay(delay: str | timedelta) -> AfterDelay:
    """Once, after `delay` in processing time since the first element."""
    return AfterDelay(not_negative(delay, "the delay of ps.after_delay"))


def after_completeness(percent: float) -> Completeness:
    """Once, when `percent` of the window's elements should be there, by the stream's percentile watermark."""
    if not 0 < percent <= 100:
        raise DefinitionError(f"ps.after_completeness takes a percentage above 0 and up to 100, not {percent!r}")
    return Completeness(float(percent))


def on_close() -> OnClose:
    """Once, when the window closes (its end plus the allowed lateness has passed): one final pane."""
    return OnClose()


def never() -> Never:
    """No panes: the view is a table only."""
    return Never()


def repeatedly(trigger: Trigger) -> Repeatedly:
    """Repeats a trigger."""
    return Repeatedly(*_triggers("repeatedly", (trigger,)))


def any_of(*triggers: Trigger) -> AnyOf:
    """Fires when the first of these triggers fires."""
    return AnyOf(_triggers("any_of", triggers))


def all_of(*triggers: Trigger) -> AllOf:
    """Fires when all of these triggers would fire."""
    return AllOf(_triggers("all_of", triggers))


def in_turn(*triggers: Trigger) -> InTurn:
    """These triggers one after the other."""
    return InTurn(_triggers("in_turn", triggers))
