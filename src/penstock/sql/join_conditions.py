"""What stands after ON where streams are joined: what of both is equal, and how far apart their event times are.

In `c.ad = s.ad AND s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at` the second half bounds the time of s less that of c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from penstock.errors import unknown
from penstock.model.expressions import parse
from penstock.model.expressions.parse import canonical
from penstock.model.stream import Flow
from penstock.model.time import Duration, duration
from penstock.model.view import WINDOW_COLUMNS
from penstock.sql.errors import Piece, Source
from penstock.sql.flow import event_time
from penstock.sql.joins import Find, Known, Names

_COMPARED: Final[dict[type[exp.Expr], str]] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<", exp.EQ: "="}
_TURNED: Final = {">=": "<=", ">": "<", "<=": ">=", "<": ">", "=": "="}


@dataclass(frozen=True)
class Sides:
    """Two flows, what names with a qualifier mean on each side, and the text that they come from.

    `times` are other columns of a side that may be its event time: the times of streams that it is itself joined from.
    """

    source: Source
    flows: tuple[Flow, Flow]
    known: tuple[Known, Known]
    find: Find
    times: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def qualifiers(self) -> list[list[str]]:
        """What may stand before the columns of each side."""
        return [list(known) for known in self.known]

    def of(self, column: exp.Column, place: Piece) -> int:
        """The side that a column is of."""
        first = column.parts[0].name
        if len(column.parts) > 1:
            for side, own_names in enumerate(self.qualifiers):
                if first.lower() in own_names:
                    return side
        having = [side for side in (0, 1) if first.lower() in self.names(side)]
        if len(having) == 1:
            return having[0]
        if having:
            names = " or ".join(f"{own_names[0]}.{first}" for own_names in self.qualifiers if own_names)
            raise self.source.error(f"both streams have a column '{first}'", place, hint=f"write {names}")
        known = [*self.names(0).values(), *self.names(1).values()]
        raise self.source.placed(unknown("column", first, known), place, {})

    def names(self, side: int) -> dict[str, str]:
        """The columns of a side, by their names in small letters; its event time, too, if that was not selected."""
        schema, time = self.flows[side].schema, event_time(self.flows[side])
        assert schema is not None
        names = schema.names if time is None or not time.isidentifier() else (time, *schema.names)
        return {name.lower(): name for name in names}

    def of_all(self, tree: exp.Expr, place: Piece) -> int | None:
        """The side that all columns of an expression are of; None if there are none, or of both."""
        sides = {self.of(column, place) for column in tree.find_all(exp.Column)}
        return sides.pop() if len(sides) == 1 else None

    def plain(self, tree: exp.Expr, side: int, place: Piece) -> str:
        """The text of an expression of a side, without qualifiers."""
        known = self.known[side]
        if len(known) == 1:  # it may name its event time, too, if that was not selected
            known = {name: self.names(side) | dict(columns) for name, columns in known.items()}
        text = Names(known).plain(self.source, Piece(canonical(tree), place.start, place.end)).text
        return parse(text).text


@dataclass
class Conditions:
    """What ON says: pairs of what is equal, between what the right one's time less the left one's lies, the window.

    `as_of`: it is about the versions of a table, and may name the column that tells which of them are `deleted`.
    """

    sides: Sides
    place: Piece
    windowed: bool
    as_of: bool = False
    pairs: list[tuple[str, str]] = field(default_factory=list)
    earliest: Duration | None = None
    latest: Duration | None = None
    in_window: bool = False
    deleted: str | None = None
    chosen: list[str | None] = field(default_factory=lambda: [None, None])  # of the times that a side may have

    def read(self, on: Piece) -> None:
        with self.sides.source.at(on):
            tree = parse(on.text).tree
        for part in _parts(tree):
            if self.as_of and not (self._deletion(part) or self._equal(part)):
                qualifier = next(iter(self.sides.qualifiers[1]), "table")
                raise self.sides.source.error(
                    f"'{canonical(part)}' compares no column of the event with the table's key",
                    self.place,
                    hint=f"a boolean column that deletes a key is named by {qualifier}.column IS NOT TRUE",
                )
            if not self.as_of and not (self._same_window(part) or self._bound(part) or self._equal(part)):
                raise self.sides.source.error(
                    f"'{canonical(part)}' is neither an equality between both streams nor a bound on their event times",
                    self.place,
                    hint="what concerns one stream goes before the join: FROM (SELECT * FROM a WHERE …) AS a JOIN …",
                )

    def _same_window(self, tree: exp.Expr) -> bool:
        columns = (tree.this, tree.expression) if isinstance(tree, exp.EQ) else ()
        names = {column.name.lower() for column in columns if isinstance(column, exp.Column)}
        if not self.windowed or len(names) != 1 or not names <= set(WINDOW_COLUMNS):
            return False
        self.in_window = True
        return True

    def _deletion(self, tree: exp.Expr) -> bool:
        """Takes the column that tells deletions, if it is named: p.deleted IS NOT TRUE."""
        tested = tree.this if isinstance(tree, exp.Not) else None
        if not isinstance(tested, exp.Is) or not isinstance(tested.this, exp.Column) or self.deleted is not None:
            return False
        is_true = isinstance(tested.expression, exp.Boolean) and tested.expression.this
        if not is_true or self.sides.of(tested.this, self.place) != 1:
            return False
        self.deleted = self.sides.plain(tested.this, 1, self.place).strip("`")
        return True

    def _equal(self, tree: exp.Expr) -> bool:
        if not isinstance(tree, exp.EQ):
            return False
        parts = [(self.sides.of_all(part, self.place), part) for part in (tree.this, tree.expression)]
        texts = {side: self.sides.plain(part, side, self.place) for side, part in parts if side is not None}
        if len(texts) == 2:
            self.pairs.append((texts[0], texts[1]))
        return len(texts) == 2

    # time

    def _bound(self, tree: exp.Expr) -> bool:
        """Takes what bounds the times, if it does."""
        if isinstance(tree, exp.Between):
            low, high = tree.args["low"], tree.args["high"]
            return self._compare(tree.this, ">=", low) and self._compare(tree.this, "<=", high)
        sign = _COMPARED.get(type(tree))
        return sign is not None and self._compare(tree.this, sign, tree.expression)

    def _compare(self, one: exp.Expr, sign: str, other: exp.Expr) -> bool:
        a, b = self._time(one), self._time(other)
        if a is None or b is None or a[0] == b[0]:
            return False
        if a[0] == 0:
            a, b, sign = b, a, _TURNED[sign]
        apart = b[1] - a[1]
        if sign in (">", ">=", "="):
            lower = apart + (sign == ">")
            self.earliest = lower if self.earliest is None else max(self.earliest, lower)
        if sign in ("<", "<=", "="):
            upper = apart - (sign == "<")
            self.latest = upper if self.latest is None else min(self.latest, upper)
        return True

    def _time(self, tree: exp.Expr) -> tuple[int, Duration] | None:
        """The side whose event time an expression is, and what is added to it."""
        if isinstance(tree, exp.Paren):
            return self._time(tree.this)
        if isinstance(tree, (exp.Add, exp.Sub)):
            time, span = self._time(tree.this), _span(tree.expression)
            if time is not None and span is not None:
                return time[0], time[1] + (-span if isinstance(tree, exp.Sub) else span)
        side = self.sides.of_all(tree, self.place)
        if side is None:
            return None
        text = self.sides.plain(tree, side, self.place)
        if text in self.sides.times[side] and self.chosen[side] in (None, text):
            self.chosen[side] = text
            return side, 0
        is_time = self.chosen[side] is None and self.sides.find.is_event_time(self.sides.flows[side], text)
        return (side, 0) if is_time else None


def _parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Paren):
        yield from _parts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _parts(tree.this)
        yield from _parts(tree.expression)
    else:
        yield tree


def _span(tree: exp.Expr) -> Duration | None:
    """The length of an interval, or of several together."""
    if isinstance(tree, exp.Paren):
        return _span(tree.this)
    if isinstance(tree, exp.Add):
        one, other = _span(tree.this), _span(tree.expression)
        return None if one is None or other is None else one + other
    if not isinstance(tree, exp.Interval) or not isinstance(tree.this, exp.Literal):
        return None
    return duration(f"{tree.this.this} {tree.unit or ''}".strip())
