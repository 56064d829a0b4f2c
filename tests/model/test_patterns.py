"""Patterns: random ones against a naive matcher, which tries every sequence of events by the definition alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.matching import Matcher
from penstock.model.pattern_processor import processor_of
from penstock.model.patterns import Match, MatchedEvent, Pattern, pattern
from penstock.model.time import END
from penstock.testing import DAY, TestStream, process
from tests.strategies import cases

SECOND = 1_000_000


@dataclass(frozen=True)
class E:
    kind: str
    v: int
    at: int = 0


def found(given: Pattern, events: list[E]) -> list[str]:
    """The matches as they come, as text: the events of each step."""
    matcher = Matcher(given.check())
    matches = [match for event in events for match in matcher.take(event.at, event)]
    matches += matcher.pass_time(1 << 62)
    return [shown(match) for match in matches]


def shown(match: Match) -> str:
    steps = match.pattern.steps
    return " ".join(f"{steps[one.step].name}{one.place}" for one in match.taken)


# The definition


class Naive:
    """All sequences that the definition allows."""

    def __init__(self, given: Pattern, events: list[E]) -> None:
        self.pattern, self.events, self.steps = given, events, given.steps
        self.found: list[Match] = []
        self.extend(())

    def extend(self, taken: tuple[MatchedEvent, ...]) -> None:
        match = Match(self.pattern, taken)
        if taken and self.whole(taken) and not self.ends_forbidden(match):
            self.found.append(match)
        for number in self.targets(taken):
            for place in range(taken[-1].place + 1 if taken else 0, len(self.events)):
                if self.may_take(match, number, place):
                    event = self.events[place]
                    self.extend((*taken, MatchedEvent(number, place, event.at, event)))

    def targets(self, taken: tuple[MatchedEvent, ...]) -> list[int]:
        if not taken:
            return self.from_here(0)
        last = taken[-1].step
        count = sum(one.step == last for one in taken)
        step = self.steps[last]
        loop = [last] if step.most is None or count < step.most else []
        return loop + (self.from_here(last + 1) if count >= step.least else [])

    def from_here(self, start: int) -> list[int]:
        found = []
        for number in range(start, len(self.steps)):
            if not self.steps[number].negated:
                found.append(number)
                if self.steps[number].least:
                    break
        return found

    def holds(self, number: int, place: int, match: Match) -> bool:
        return self.steps[number].holds(self.events[place], match)

    def may_take(self, match: Match, number: int, place: int) -> bool:
        step, span = self.steps[number], self.pattern.span
        if not self.holds(number, place, match):
            return False
        if not match.taken:
            return True
        if span is not None and self.events[place].at - match.start > span:
            return False
        last = match.taken[-1]
        between = range(last.place + 1, place)
        if step.how == "then" and between:
            return False
        if step.how == "later" and any(self.holds(number, q, match) for q in between):
            return False
        here = self.steps[last.step]
        if here.greedy and last.step in self.targets(match.taken):  # it takes an event whenever it can
            end = place if number == last.step else place + 1
            looked = range(last.place + 1, min(end, last.place + 2) if here.how == "then" else end)
            if any(self.holds(last.step, q, match) for q in looked):
                return False
        forbidden = [n for n in range(last.step + 1, number) if self.steps[n].negated]
        return not any(self.holds(n, q, match) for n in forbidden for q in between)

    def whole(self, taken: tuple[MatchedEvent, ...]) -> bool:
        last = taken[-1].step
        enough = sum(one.step == last for one in taken) >= self.steps[last].least
        return enough and all(step.negated or not step.least for step in self.steps[last + 1 :])

    def ends_forbidden(self, match: Match) -> bool:
        if not self.steps[-1].negated:
            return False
        span = self.pattern.span
        assert span is not None
        number = len(self.steps) - 1
        after = range(match.taken[-1].place + 1, len(self.events))
        return any(self.events[q].at <= match.start + span and self.holds(number, q, match) for q in after)

    def moment(self, match: Match) -> tuple[Any, ...]:
        """When a match is known: with its last event, or before the first event after its time."""
        last = match.taken[-1].place
        if not self.steps[-1].negated:
            return last, 1, last, match.taken[0].place, match.places
        assert self.pattern.span is not None
        end = match.start + self.pattern.span
        known = next((q for q, event in enumerate(self.events) if event.at > end), len(self.events))
        return known, 0, last, match.taken[0].place, match.places

    def matches(self) -> list[str]:
        """In the order in which they are known; with `skip`, in the order in which they begin, one after the other."""
        skip = self.pattern.skipping
        if skip.to == "nothing":
            return [shown(match) for match in sorted(self.found, key=self.moment)]
        left = sorted(self.found, key=lambda one: (one.taken[0].place, one.taken[-1].place, one.places))
        chosen = []
        while left:
            match = left.pop(0)
            chosen.append(shown(match))
            places = {
                name: [one.place for one in match.taken if self.steps[one.step].name == name]
                for name in self.pattern.names
            }
            if skip.to == "next":
                after = match.taken[0].place + 1
            elif skip.to == "past last":
                after = match.taken[-1].place + 1
            else:
                own = places[str(skip.step)]
                after = -1 if not own else own[0] if skip.to == "first" else own[-1]
            left = [one for one in left if one.taken[0].place >= after]
        return chosen


CONDITIONS = [
    lambda e: e.kind == "a",
    lambda e: e.kind == "b",
    lambda e: e.kind in "ab",
    lambda e: e.v > 1,
    lambda e, m: m.taken and e.v > m.taken[-1].event.v,
    lambda e, m: e.v >= len(m.taken),
    lambda e, m: not m.taken or e.v != m.taken[0].event.v,
]


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    condition = st.sampled_from(CONDITIONS)
    times = st.sampled_from([1, 1, "?", "+", "*", 2, (1, 2), (2, None)])
    count = draw(st.integers(1, 4))
    made = pattern("s0", draw(condition), draw(times), greedy=draw(st.booleans()) and count > 1)
    for number in range(1, count):
        if draw(st.integers(0, 3)) == 0 and not made.steps[-1].negated:
            made = made.unless(f"n{number}", draw(condition))
        how = draw(st.sampled_from(["then", "later", "sometime"]))
        greedy = draw(st.booleans()) and number < count - 1
        made = getattr(made, how)(f"s{number}", draw(condition), draw(times), greedy=greedy)
    if draw(st.booleans()):
        made = made.within(f"{draw(st.integers(1, 6))} seconds")
        if draw(st.integers(0, 3)) == 0:
            made = made.unless("end", draw(condition))
    skips = ["nothing", "nothing", "next", "past last", *(f"{w} {n}" for w in ("first", "last") for n in made.names)]
    return made.skip(draw(st.sampled_from(skips)))


def events() -> st.SearchStrategy[list[E]]:
    one = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 2))

    def timed(rows: list[tuple[str, int, int]]) -> list[E]:
        at, found = 0, []
        for kind, v, step in rows:
            at += step * SECOND
            found.append(E(kind, v, at))
        return found

    return st.lists(one, max_size=7).map(timed)


@cases(300, deep=60)
@given(patterns(), events())
def test_a_pattern_gives_what_its_definition_gives(given: Pattern, some: list[E]) -> None:
    try:
        given.check()
    except DefinitionError:
        return
    note(str(given))
    note(str(given.skipping))
    matches, expected = found(given, some), Naive(given, some).matches()
    assert matches == expected if given.skipping.to == "nothing" else sorted(matches) == sorted(expected)


def test_what_no_event_could_tell_is_refused() -> None:
    a = pattern("a", lambda e: True)
    for wrong, said in (
        (lambda: pattern("a", lambda e: True, "*").check(), "needs a step that must be there"),
        (lambda: a.unless("b", lambda e: True).check(), "when its time is over"),
        (lambda: a.then("a", lambda e: True), "cannot have a step 'a'"),
        (lambda: a.then("b", 3), "is not a function"),
        (lambda: a.then("b", lambda: True), "takes 0 values"),
        (lambda: a.then("b", lambda e: True, (3, 2)), "cannot occur"),
        (lambda: a.then("b", lambda e: True, "some"), "is not known"),
        (lambda: a.skip("all"), "is not known"),
        (lambda: a.then("b", lambda e: True, "+", greedy=True).check(), "is the last step"),
        (lambda: a.unless("b", lambda e: True).unless("c", lambda e: True), "exclude events at the same place"),
    ):
        with pytest.raises(DefinitionError, match=said):
            wrong()


# Transcripts


def read(text: str) -> list[E]:
    """Events as kind, value and second."""
    found = []
    for number, word in enumerate(text.split()):
        told = re.fullmatch(r"([abc])(\d+)?(?:@(\d+))?", word)
        assert told is not None, word
        found.append(E(told[1], int(told[2] or 0), int(told[3] or number) * SECOND))
    return found


TRANSCRIPTS = yaml.safe_load((Path(__file__).parent / "patterns.yaml").read_text(encoding="utf-8"))["cases"]
NAMES = {kind.upper(): (lambda e, kind=kind: e.kind == kind) for kind in "abc"}


@pytest.mark.parametrize("case", TRANSCRIPTS, ids=lambda case: case["name"])
def test_a_transcript(case: dict[str, Any]) -> None:
    given = eval(case["pattern"], {**NAMES, "pattern": pattern})
    assert found(given, read(case["events"])) == case["matches"]


# As a processor, on events in any order

CLICKS = ps.stream(
    "clicks", schema="user string, kind string, v bigint, at timestamp", event_time="at", watermark=ps.bounded("9 s")
)


@cases(60, deep=60)
@given(patterns(), events(), st.randoms(use_true_random=False))
def test_a_processor_finds_the_same_in_events_that_come_in_disorder(given: Pattern, some: list[E], chance: Any) -> None:
    try:
        given.check()
    except DefinitionError:
        return
    found_by = processor_of(given, "user string, found string", lambda key, m: {"user": key, "found": values(m)})
    mixed = sorted(enumerate(some), key=lambda one: (one[1].at // (4 * SECOND), chance.random()))
    mixed = sorted(mixed, key=lambda one: one[1].at // (8 * SECOND))
    script = TestStream(CLICKS)
    for _, event in mixed:
        script = script.add(("ann", event.kind, event.v, DAY + event.at), ("bob", event.kind, event.v, DAY + event.at))
        if chance.random() < 0.3:
            script = script.restart()
    played = process(found_by, script.watermark(DAY + 3600 * SECOND).watermark(END), by="user")
    in_order = sorted(mixed, key=lambda one: one[1].at)  # of one time, as they came
    matcher = Matcher(given)
    expected = [values(m) for _, event in in_order for m in matcher.take(event.at, event)]
    expected += [values(m) for m in matcher.pass_time(1 << 62)]
    assert [row["found"] for row in played.rows if row["user"] == "ann"] == expected
    assert [row["found"] for row in played.rows if row["user"] == "bob"] == expected
    assert not played.dead
    assert not played.late


def values(match: Match) -> str:
    return " ".join(f"{match.pattern.steps[one.step].name}:{one.event.kind}{one.event.v}" for one in match.taken)
