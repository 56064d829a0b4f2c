"""What a join of streams must know of the columns of a flow: which has the event time, which follow from the sign."""

from __future__ import annotations

from penstock.model.explode import Explode
from penstock.model.expressions import parse
from penstock.model.row_steps import Map
from penstock.model.stream import Branch, Flow, Select, Transform, WithTime, branches


def time_column(flow: Flow) -> str | None:
    """The column of a flow that is the event time; None if none is, or not on all ways into the flow.

    >>> from penstock.model.stream import stream
    >>> clicks = stream("clicks", schema="user string, at timestamp", event_time="at")
    >>> time_column(clicks.select("user", clicked="at")), time_column(clicks.select("user"))
    ('clicked', None)
    """
    times = {_time(branch) for branch in branches(flow)}
    return times.pop() if len(times) == 1 else None


def _time(branch: Branch) -> str | None:
    time = _column(branch.source.event_time)
    for step in branch.steps:
        if isinstance(step, WithTime):
            time = _column(step.expression)
        elif isinstance(step, Select):
            time = next((name.lower() for name, text in step.columns if time and _column(text) == time), None)
        elif isinstance(step, (Transform, Map)):
            time = None  # nobody knows what code makes of a column
    schema = branch.schema
    return None if time is None or schema is None or time not in schema else schema.find(time)


def _reads(text: str, columns: set[str]) -> bool:
    return not {name.lower() for name in columns}.isdisjoint(name.lower() for name in parse(text).columns)


def _column(text: str | None) -> str | None:
    """The name, in small letters, of a column that an expression is; None if it is more than that."""
    plain = "" if text is None else text.strip().strip("`").lower()
    return plain if plain.isidentifier() else None


def sign_columns(flow: Flow) -> frozenset[str]:
    """The columns of a flow that depend on the sign of its rows: a retraction has other values there.

    >>> from penstock.model.stream import stream
    >>> orders = stream("orders", schema="id int, change int", sign="change")
    >>> sorted(sign_columns(orders.select("id", kind="change", more="id + change")))
    ['kind', 'more']
    """
    columns: set[str] = set()
    for branch in branches(flow):
        if branch.source.sign is None:
            continue
        dependent = {branch.source.schema.find(name) for name in parse(branch.source.sign).columns}
        for step in branch.steps:
            if isinstance(step, Select):
                dependent = {name for name, text in step.columns if _reads(text, dependent)}
            elif isinstance(step, Explode) and _reads(step.expression, dependent):
                dependent |= set(step.made)
            elif isinstance(step, Map):  # the other columns that code makes are the same for a retraction
                dependent &= set(step.schema.names)
        columns |= dependent
    return frozenset(columns)
