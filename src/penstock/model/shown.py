"""What a view shows of a window: its answers, or expressions over them, if its condition holds."""

from __future__ import annotations

from penstock.errors import RowError
from penstock.model.expressions import Bound, bind, evaluate
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import Global, Interval


class ShownValues:
    """The values of a window as people see them. An expression that fails is null; so is a condition, which then fails.

    >>> import penstock as ps
    >>> view = ps.stream("s", schema="v int").group_by().agg(n=ps.count(), total=ps.sum("v"))
    >>> shown = ShownValues(view.select("n", mean="total / n").having("n > 1"))
    >>> shown((), Interval(0, 1), (2, 7)), shown((), Interval(0, 1), (1, 7))
    ((2, 3.5), None)
    """

    def __init__(self, view: View) -> None:
        self._plain = view.shown is None and view.condition is None
        self._names = [name for name, _ in view.keys]
        self._bounds = () if isinstance(view.windows, Global) else WINDOW_COLUMNS
        self._aggregates = [name for name, _ in view.aggregates]
        if not self._plain:
            schema = view.result_schema
            self._values = None if view.shown is None else [bind(text, schema) for _, text in view.shown]
            self._condition = None if view.condition is None else bind(view.condition, schema)

    def __call__(
        self, key: tuple[object, ...], window: Interval, answers: tuple[object, ...]
    ) -> tuple[object, ...] | None:
        """The values; None where the condition does not hold."""
        if self._plain:
            return answers
        row: dict[str, object] = dict(zip(self._names, key, strict=True))
        row |= dict(zip(self._bounds, window, strict=False)) | dict(zip(self._aggregates, answers, strict=True))
        if self._condition is not None and _value(self._condition, row) is not True:
            return None
        return answers if self._values is None else tuple(_value(bound, row) for bound in self._values)


def _value(bound: Bound, row: dict[str, object]) -> object:
    try:
        return evaluate(bound, row)
    except RowError:
        return None
