"""Reads *when* panes fire and *how* they relate: EMIT … [DISCARDING | ACCUMULATING | RETRACTING] ALLOWED LATENESS …"""

from __future__ import annotations

from collections.abc import Callable

from penstock.model import triggers as model
from penstock.model.time import show_duration
from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.queries import Emit

_ACCUMULATIONS = ("DISCARDING", "ACCUMULATING", "RETRACTING")


def emit(c: Cursor) -> Emit:
    """[EMIT [trigger] [accumulation]] [ALLOWED LATENESS duration]"""
    trigger = accumulation = lateness = None
    places: list[Piece | None] = [None, None, None]
    if c.word("EMIT"):
        start = c.index
        trigger = _when(c)
        places[0] = c.piece(start) if trigger is not None else None
        at = c.index
        accumulation = next((word.lower() for word in _ACCUMULATIONS if c.word(word)), None)
        places[1] = c.piece(at) if accumulation else None
        if trigger is None and accumulation is None:
            raise c.unexpected()
    if c.word("ALLOWED"):
        c.need("LATENESS")
        lateness, places[2] = c.duration()
    return Emit(trigger, accumulation, lateness, *places)


def _when(c: Cursor) -> model.Trigger | None:
    """[EARLY trigger] [ON TIME [UNLESS UNCHANGED]] [LATE trigger], or one trigger, or nothing."""
    early = late = None
    unchanged = "fire"
    if c.word("EARLY"):
        early = _trigger(c)
    on_time = c.word("ON", "TIME")
    if on_time and c.word("UNLESS", "UNCHANGED"):
        unchanged = "skip"
    if c.word("LATE"):
        late = _trigger(c)
    if early is not None or on_time or late is not None:
        first = model.on_time(early=early, late=late, unchanged=unchanged)
        return first.or_finally(_trigger(c)) if c.word("OR", "FINALLY") else first
    if any(c.sees(word) for word in _ACCUMULATIONS):
        return None
    return _trigger(c)


def _trigger(c: Cursor) -> model.Trigger:
    """A trigger, and perhaps OR FINALLY another."""
    trigger = _simple(c)
    while c.word("OR", "FINALLY"):
        trigger = trigger.or_finally(_simple(c))
    return trigger


def _simple(c: Cursor) -> model.Trigger:
    for word, read in _WORDS.items():
        if c.word(*word.split()):
            return read(c)
    if c.sign("("):
        trigger = _trigger_or_on_time(c)
        c.need_sign(")")
        return trigger
    raise c.unexpected()


def _every(c: Cursor) -> model.Trigger:
    period, place = c.duration()
    with c.source.at(place):
        return model.every(show_duration(period))


def _after(c: Cursor) -> model.Trigger:
    """AFTER 100 ROWS, AFTER 99.5 PERCENT, AFTER 10 SECONDS"""
    start = c.index
    if c.token is not None and not c.sees("INTERVAL"):
        number = c.number("a number")
        if c.word("ROWS") or c.word("ROW"):
            c.index = start
            count = c.whole("a number of rows")
            c.index += 1
            with c.source.at(number):
                return model.after_count(count)
        if c.word("PERCENT"):
            with c.source.at(number):
                return model.after_completeness(float(number.text))
        if c.token is None or not c.token.text.isalpha():
            c.note("a unit of time")
            raise c.unexpected()
        c.index = start
    delay, place = c.duration()
    with c.source.at(place):
        return model.after_delay(show_duration(delay))


def _again(c: Cursor) -> model.Trigger:
    c.need_sign("(")
    part = _trigger_or_on_time(c)
    c.need_sign(")")
    return model.repeatedly(part)


def _group(make: Callable[..., model.Trigger]) -> Callable[[Cursor], model.Trigger]:
    def read(c: Cursor) -> model.Trigger:
        c.need_sign("(")
        parts = c.several(lambda: _trigger_or_on_time(c))
        c.need_sign(")")
        return make(*parts)

    return read


def _trigger_or_on_time(c: Cursor) -> model.Trigger:
    trigger = _when(c)
    if trigger is None:
        raise c.unexpected()
    return trigger


_WORDS: dict[str, Callable[[Cursor], model.Trigger]] = {
    "CHANGES": lambda c: model.each(),
    "EACH": lambda c: model.each(),
    "FINAL": lambda c: model.on_close(),
    "NEVER": lambda c: model.never(),
    "EVERY": _every,
    "AFTER": _after,
    "REPEATEDLY": _again,
    "ANY OF": _group(model.any_of),
    "ALL OF": _group(model.all_of),
    "IN TURN": _group(model.in_turn),
}
