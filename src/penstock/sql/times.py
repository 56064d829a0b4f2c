"""Times in a SELECT over views. The store shows them as text in UTC, so that what compares them must be text too."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.model.time import SECOND, Instant, duration, instant, to_datetime
from penstock.sql.errors import Piece, Source

_TIMESTAMPS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ)


def with_times(tree: exp.Expr, source: Source, whole: Piece, now: Instant | None) -> exp.Expr:
    """Casts to times, literals of times and intervals, as the store's functions of text; `now` in the clock's place."""
    for node in list(tree.find_all(exp.Anonymous, exp.CurrentTimestamp, exp.CurrentDate)):
        if isinstance(node, exp.Anonymous) and (node.name.lower() != "now" or node.expressions):
            continue
        clock = exp.CurrentDate if isinstance(node, exp.CurrentDate) else exp.CurrentTimestamp
        text = "" if now is None else store_text(now, clock is exp.CurrentDate)
        node.replace(clock() if now is None else exp.Literal.string(text))
    for node in list(tree.find_all(exp.Cast)):
        kind = node.to.this
        if kind in _TIMESTAMPS or kind is exp.DType.DATE:
            node.replace(_cast(node.this, kind is exp.DType.DATE, source, whole))
    for node in list(tree.find_all(exp.TsOrDsToDate, exp.Date)):
        node.replace(exp.Anonymous(this="date", expressions=[node.this]))
    for interval in list(tree.find_all(exp.Interval)):
        _shift(interval, source, whole)
    return tree


def _cast(inner: exp.Expr, date: bool, source: Source, whole: Piece) -> exp.Expr:
    if isinstance(inner, exp.Literal) and inner.is_string:
        with source.at(whole):
            return exp.Literal.string(store_text(instant(inner.name), date))
    return exp.Anonymous(this="date" if date else "datetime", expressions=[inner.copy()])


def store_text(micros: int, date: bool = False) -> str:
    """An instant as the store shows it.

    >>> store_text(1_500_000), store_text(0), store_text(0, date=True)
    ('1970-01-01 00:00:01.500000', '1970-01-01 00:00:00', '1970-01-01')
    """
    at = to_datetime(micros).replace(tzinfo=None)
    return at.date().isoformat() if date else at.isoformat(sep=" ")


def _shift(node: exp.Interval, source: Source, whole: Piece) -> None:
    """time ± INTERVAL … becomes datetime(time, '±n seconds')."""
    sum_of = node.parent
    if not isinstance(sum_of, (exp.Add, exp.Sub)) or sum_of.expression is not node:
        hint = "write time - INTERVAL 3 DAYS"
        raise source.error("an INTERVAL is added to a time or taken from it", whole, hint=hint)
    amount, unit = node.this, node.args.get("unit")
    said = f"{amount.name if amount is not None else ''} {unit.name if unit is not None else ''}".strip()
    sign = "-" if isinstance(sum_of, exp.Sub) else "+"
    if unit is not None and unit.name.upper().removesuffix("S") in ("MONTH", "YEAR") and amount.name.isdecimal():
        modifier = f"{sign}{amount.name} {unit.name.lower().removesuffix('s')}s"
    else:
        try:
            modifier = f"{sign}{duration(said) / SECOND:g} seconds"
        except DefinitionError as error:
            raise source.placed(error, whole, {}) from None
    sum_of.replace(exp.Anonymous(this="datetime", expressions=[sum_of.this.copy(), exp.Literal.string(modifier)]))
