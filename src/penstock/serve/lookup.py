"""Lookups: rows of a view by key and window, typed by the view's columns, a page at a time.

A page ends with a cursor that names its last row, so that pages stay right while rows come and go between them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, TypeAlias

from penstock.errors import PenstockError
from penstock.kernel.plan import END, START
from penstock.model.time import Instant, instant, micros_of
from penstock.model.types import INTEGERS, decimal_of
from penstock.serve.askers import Question
from penstock.serve.errors import Answered
from penstock.serve.views import ViewEntry, not_there
from penstock.store.present import EXACT_DIGITS, stored_time
from penstock.store.segment_lookup import SegmentQuestion, is_place
from penstock.store.tables import quoted

Order: TypeAlias = Literal["newest", "oldest"]
#: How many values of one key a request may ask for.
_VALUES: Final = 100
_WHOLE: Final = 1 << 63
_DAY: Final = 86_400_000_000


@dataclass(frozen=True)
class Lookup:
    """A lookup in a view. Values of keys are the request's text; several mean any of them."""

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    null: Sequence[str] = ()
    window_start: str | None = None
    start: str | None = None
    end: str | None = None
    final: bool | None = None
    order: Order = "newest"
    limit: int = 100
    cursor: str | None = None

    def question(self, view: ViewEntry) -> Question | SegmentQuestion:
        """The question that the store is asked; it gives one row more than the page, and the place of each."""
        if view.in_segments:
            return self._segment_question(view)
        rules, parameters = self._rules(view)
        where = f" WHERE {' AND '.join(rules)}" if rules else ""
        turn = "DESC" if self.order == "newest" else "ASC"
        columns = ", ".join(quoted(name) for name in view.columns)
        text = (
            f"SELECT {columns}, __e, __s, __k FROM ({view.select}) r{where} "
            f"ORDER BY __e {turn}, __s {turn}, __k {turn} LIMIT {self.limit + 1}"
        )
        return Question(text, parameters, self.limit + 1)

    def _rules(self, view: ViewEntry) -> tuple[list[str], list[object]]:
        rules: list[str] = []
        parameters: list[object] = []

        def mark(value: object) -> str:
            parameters.append(value)
            return f"?{len(parameters)}"

        for name, texts in self.keys.items():
            kind = _kind(view, name)
            if len(texts) > _VALUES:
                raise Answered(422, f"more than {_VALUES} values for the key '{name}'")
            rules.append(f"{quoted(name)} IN ({', '.join(mark(value(text, kind, name)) for text in texts)})")
        for name in self.null:
            _kind(view, name)
            rules.append(f"{quoted(name)} IS NULL")
        if self.window_start is not None:
            rules.append(f"__s = {mark(_bound(view, self.window_start, 'window_start'))}")
        if self.start is not None:
            at = mark(_bound(view, self.start, "from"))
            rules += [f"__s >= {at}", f"__e >= {at}"]  # a window ends after it starts: rows lie by their end
        if self.end is not None:
            rules.append(f"__s < {mark(_bound(view, self.end, 'to'))}")
        if self.final is not None:
            rules.append("final" if self.final else "NOT final")
        if self.cursor is not None:
            sign = "<" if self.order == "newest" else ">"
            place = ", ".join(mark(part) for part in _place(self.cursor, self.order))
            rules.append(f"(__e, __s, __k) {sign} ({place})")
        return rules, parameters

    def _segment_question(self, view: ViewEntry) -> SegmentQuestion:
        keys: dict[str, list[object]] = {}
        for name, texts in self.keys.items():
            kind = _kind(view, name)
            if len(texts) > _VALUES:
                raise Answered(422, f"more than {_VALUES} values for the key '{name}'")
            keys[name] = [_physical(value(text, kind, name), kind, name) for text in texts]
        for name in self.null:
            _kind(view, name)
        bounds: list[tuple[str, str, int]] = []
        if self.window_start is not None:
            bounds.append((START, "=", _bound(view, self.window_start, "window_start")))
        if self.start is not None:
            at = _bound(view, self.start, "from")
            bounds += [(START, ">=", at), (END, ">=", at)]
        if self.end is not None:
            bounds.append((START, "<", _bound(view, self.end, "to")))
        after = None
        if self.cursor is not None:
            after = _place(self.cursor, self.order)
            if not is_place(after[2]):
                raise Answered(422, "this is not a cursor of this query", hint="begin with the first page again")
        newest = self.order == "newest"
        return SegmentQuestion(view.name, keys, self.null, bounds, self.final, newest, after, self.limit + 1)

    def page(self, rows: list[list[Any]]) -> tuple[list[list[Any]], str | None]:
        """The rows of the page, without their places, and the cursor for the next one if there is more."""
        page = rows[: self.limit]
        more = _cursor(page[-1][-3:], self.order) if len(rows) > self.limit else None
        return [row[:-3] for row in page], more


def _kind(view: ViewEntry, name: str) -> str:
    if name not in view.keys:
        error = not_there(f"key of '{view.name}'", name, view.keys)
        raise Answered(422, error.message, detail=error.detail, hint=error.hint)
    return view.keys[name]


def value(text: str, kind: str, name: str) -> object:
    """A value of a column as the store shows it.

    >>> value("2024-05-01T14:00:00+02:00", "timestamp", "at"), value("true", "boolean", "b")
    ('2024-05-01 12:00:00', True)
    """
    try:
        if "\x00" in text:
            raise ValueError
        text.encode()
        return _parsed(text, kind)
    except (ValueError, ArithmeticError, InvalidOperation, PenstockError):
        raise Answered(422, f"'{text[:60]}' is not of type {kind}, which '{name}' is") from None


def _parsed(text: str, kind: str) -> object:
    if kind in INTEGERS:
        number = int(text[:30])
        if not -_WHOLE <= number < _WHOLE:
            raise ValueError
        return number
    if kind in ("float", "double"):
        return float(text)
    if kind == "boolean":
        return text.lower() in ("true", "1") if text.lower() in _TRUTHS else _refuse()
    if kind == "timestamp":
        return stored_time(instant(text))
    if kind == "date":
        return date.fromisoformat(text).isoformat()
    if kind.startswith("decimal("):
        digits, scale = decimal_of(kind)
        exact = Decimal(text).quantize(Decimal(1).scaleb(-scale))
        return float(exact) if digits <= EXACT_DIGITS else str(exact)
    if kind == "binary":
        return base64.b64decode(text, validate=True)
    return text


def _physical(shown: object, kind: str, name: str) -> object:
    """A value that the store shows, as segments have it: times as numbers."""
    if kind == "timestamp":
        return micros_of(str(shown))
    if kind == "date":
        return micros_of(str(shown)) // _DAY
    if kind.startswith(("array<", "struct<", "map<")):
        raise Answered(422, f"rows of this view cannot be looked up by '{name}'", hint="ask in SQL: POST /api/v1/query")
    return str(shown) if kind.startswith("decimal(") else shown


_TRUTHS: Final = {"true", "false", "1", "0"}


def _refuse() -> object:
    raise ValueError


def _bound(view: ViewEntry, text: str, what: str) -> Instant:
    """A window's start: an instant, or an element's number in windows that count."""
    if not view.has_windows:
        raise Answered(422, f"the view '{view.name}' has no windows", hint=f"leave out {what}")
    kind = view.columns["window_start"]
    try:
        start = int(text[:30]) if kind != "timestamp" else instant(text)
        if not -_WHOLE <= start < _WHOLE:
            raise ValueError
        return start
    except (ValueError, ArithmeticError, PenstockError):
        raise Answered(422, f"{what} is not of type {kind}: '{text[:60]}'", hint="write 2024-05-01T12:00:00Z") from None


def _cursor(place: Sequence[Any], order: Order) -> str:
    end, start, key = place
    content = json.dumps([order, end, start, bytes(key).hex()])
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _place(cursor: str, order: Order) -> tuple[int, int, bytes]:
    try:
        content = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        turned, end, start, key = content
        if turned != order or type(end) is not int or type(start) is not int or max(abs(end), abs(start)) >= _WHOLE:
            raise ValueError
        return end, start, bytes.fromhex(key)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise Answered(422, "this is not a cursor of this query", hint="take 'next' of the page before") from None
