"""Reads windows: TUMBLE, HOP, SESSION, CUMULATE, CALENDAR and COUNT_WINDOW."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.model import windows as model
from penstock.model.time import Duration, show_duration
from penstock.sql.cursor import Cursor
from penstock.sql.errors import Piece
from penstock.sql.queries import Relation, Windowed

#: The windows, with what each takes after the relation.
WINDOWS = {
    "TUMBLE": "time, size [, offset]",
    "HOP": "time, every, size [, offset]",
    "SESSION": "time, gap",
    "CUMULATE": "time, step, size [, offset]",
    "CALENDAR": "time, unit [, zone [, week_start]]",
    "COUNT_WINDOW": "rows [, every]",
}


def window(c: Cursor, relation: Callable[[], Relation]) -> Windowed:
    """NAME(relation, …)"""
    start = c.index
    kind = c.one_of(*WINDOWS)
    c.need_sign("(")
    of = relation()
    time = None
    if kind != "COUNT_WINDOW":
        _comma(c, "the event time", kind)
        time = c.expression("the event time")
    at = c.index
    make = _READERS[kind](c)
    place = Piece("", c.tokens[at].start, c.place) if at < len(c.tokens) else c.piece(start)
    c.need_sign(")")
    try:
        windows = make()
    except PenstockError as error:
        raise c.source.placed(error, _blamed(c, error, place), {}) from None
    return Windowed(windows, of, time, c.piece(start))


def _blamed(c: Cursor, error: PenstockError, arguments: Piece) -> Piece:
    """The argument that an error is about: the one that it names, or the first."""
    for token in c.tokens:
        if arguments.start <= token.start < arguments.end and f"'{token.text}'" in error.message:
            return Piece(token.text, token.start, token.end + 1)
    first = next(token for token in c.tokens if token.start > arguments.start)
    return Piece(first.text, first.start, first.end + 1)


Make = Callable[[], model.Window]


def _tumble(c: Cursor) -> Make:
    (size,) = _durations(c, "TUMBLE", "the size")
    offset = _offset(c)
    return lambda: model.fixed(size, offset=offset)


def _hop(c: Cursor) -> Make:
    every, size = _durations(c, "HOP", "the step", "the size")
    offset = _offset(c)
    return lambda: model.sliding(size, every=every, offset=offset)


def _session(c: Cursor) -> Make:
    (gap,) = _durations(c, "SESSION", "the gap")
    return lambda: model.session(gap)


def _cumulate(c: Cursor) -> Make:
    step, size = _durations(c, "CUMULATE", "the step", "the size")
    offset = _offset(c)
    return lambda: model.cumulating(size, step=step, offset=offset)


def _calendar(c: Cursor) -> Make:
    _comma(c, "the unit", "CALENDAR")
    arguments: dict[str, str] = {"unit": _text(c, "a unit: 'day', 'week', 'month', 'quarter' or 'year'").lower()}
    left = ["zone", "week_start"]
    while left and c.sign(","):
        if _named(c, left):
            name = c.one_of(*(word.upper() for word in left)).lower()
            c.need_sign("=>")
        else:
            name = left[0]
        left = left[left.index(name) + 1 :] if name in left else left
        arguments[name] = _text(c, "a text in quotes")
    return lambda: model.calendar(**arguments)


def _count(c: Cursor) -> Make:
    _comma(c, "how many rows", "COUNT_WINDOW")
    size = c.whole("a number of rows")
    every = size
    if c.sign(","):
        if c.word("EVERY"):
            c.need_sign("=>")
        every = c.whole("a number of rows")
    return lambda: model.count_window(size, every=every)


_READERS: dict[str, Callable[[Cursor], Make]] = {
    "TUMBLE": _tumble,
    "HOP": _hop,
    "SESSION": _session,
    "CUMULATE": _cumulate,
    "CALENDAR": _calendar,
    "COUNT_WINDOW": _count,
}


def _durations(c: Cursor, kind: str, *names: str) -> tuple[str, ...]:
    durations = []
    for name in names:
        _comma(c, name, kind)
        durations.append(show_duration(c.duration()[0]))
    return tuple(durations)


def _offset(c: Cursor) -> str:
    offset: Duration = 0
    if c.sign(","):
        if c.word("OFFSET"):
            c.need_sign("=>")
        offset, _ = c.duration()
    return show_duration(offset)


def _comma(c: Cursor, what: str, kind: str) -> None:
    if not c.sign(","):
        raise c.source.error(
            f"{kind} needs {what} here", c.place, detail=f"it is {kind}(stream, {WINDOWS[kind]})",
            hint="write a comma and a value",
        )  # fmt: skip


def _named(c: Cursor, names: list[str]) -> bool:
    return c.token is not None and c.token.text.lower() in names


def _text(c: Cursor, what: str) -> str:
    """A text in quotes, or a bare word such as MONTH."""
    if c.token is not None and c.token.text.isalpha() and not c.source.text.startswith(("'", '"'), c.token.start):
        return c.name(what).text
    return c.string(what).text
