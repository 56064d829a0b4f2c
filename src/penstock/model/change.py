"""What may change in a view's definition while its state lives on, and what may not.

The state of a view is determined by its input, keys, windows and aggregates: another one of these is another state,
and takes a replacement (computed beside the old one). When panes fire, how they relate, how late elements may be and
how the watermark is estimated are decided commit by commit: they may change between two commits.

>>> import penstock as ps
>>> s = ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second"))
>>> old = s.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
>>> [(c.what, c.allowed) for c in changes(old, old.retracting())]
[('accumulation', True)]
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penstock.model.changes import Changes
from penstock.model.explode import Explode
from penstock.model.expressions import parse
from penstock.model.naming import function_identity
from penstock.model.row_steps import PythonStep
from penstock.model.stream import Branch, Select, Transform, Where, WithTime, branches
from penstock.model.table import TableJoin
from penstock.model.time import show_duration
from penstock.model.view import View
from penstock.model.windows import Custom, CustomMerging, Global, Window


@dataclass(frozen=True)
class Change:
    """One difference between two definitions of a view."""

    what: str
    old: str
    new: str
    allowed: bool
    why: str


def fingerprint(view: View) -> str:
    """A digest that is the same in every process and for every spelling of the same expressions."""
    parts = [
        *_input(view),
        *(f"key {name} = {parse(text).text}" for name, text in view.keys),
        _windows(view.windows),
        *(f"{name} = {aggregate.describe()}" for name, aggregate in view.aggregates),
        *(f"shows {name} = {parse(text).text}" for name, text in view.shown or ()),
        *([] if view.condition is None else [f"having {parse(view.condition).text}"]),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def changes(old: View, new: View) -> tuple[Change, ...]:
    """What differs, and whether the state can live on."""
    found: list[Change] = []

    def note(what: str, before: object, after: object, allowed: bool, why: str) -> None:
        if before != after:
            found.append(Change(what, str(before), str(after), allowed, why))

    again = "the state was computed from something else: replace the view"
    note("input", "; ".join(_input(old)), "; ".join(_input(new)), False, again)
    note("keys", dict(old.keys), dict(new.keys), False, again)
    note("window", _windows(old.windows), _windows(new.windows), False, again)
    before, after = dict(old.aggregates), dict(new.aggregates)
    for name in before.keys() | after.keys():
        if name not in after:
            found.append(Change(f"aggregate {name}", repr(before[name]), "–", True, "its column is dropped"))
        elif name not in before:
            why = "it would miss all events so far: replace the view"
            found.append(Change(f"aggregate {name}", "–", repr(after[name]), False, why))
        else:
            note(f"aggregate {name}", before[name].describe(), after[name].describe(), False, again)
    shows = "finished windows are stored as they were shown: replace the view"
    note("shown", dict(old.shown or ()), dict(new.shown or ()), False, shows)
    note("having", old.condition, new.condition, False, shows)
    note("trigger", repr(old.firing), repr(new.firing), True, "windows that are open start the new trigger afresh")
    note("accumulation", old.accumulation, new.accumulation, True, "from the next pane on")
    why = "windows that are closed stay closed"
    note("lateness", show_duration(old.lateness), show_duration(new.lateness), True, why)
    note("retention", _retention(old), _retention(new), True, _why_retention(old, new))
    note("watermark", _watermarks(old), _watermarks(new), True, "a watermark never goes back")
    return tuple(sorted(found, key=lambda change: (change.allowed, change.what)))


def _why_retention(old: View, new: View) -> str:
    if not isinstance(new.windows, Global):
        return "windows that are gone stay gone"
    return "keys that are gone stay gone" if old.forgets else "keys that are there count as touched now"


def _retention(view: View) -> str:
    return "for ever" if view.retention is None else show_duration(view.retention)


def _input(view: View) -> list[str]:
    """The way into the view. What only decides about time (watermark, horizons) is left out."""
    return sorted(_branch(branch) for branch in branches(view.input))


def _branch(branch: Branch) -> str:
    source = branch.source
    texts = [f"{source.name}({source.schema.ddl()})"]
    if isinstance(source, Changes):
        texts.append(f"changes {fingerprint(source.of)}")
    for word, text in (("at", source.event_time), ("id", source.id), ("sign", source.sign)):
        if text is not None:
            texts.append(f"{word} {parse(text).text}")
    for step in branch.steps:
        if isinstance(step, Where):
            texts.append(f"where {parse(step.condition).text}")
        elif isinstance(step, Select):
            texts.append("select " + ", ".join(f"{name} = {parse(text).text}" for name, text in step.columns))
        elif isinstance(step, WithTime):
            texts.append(f"at {parse(step.expression).text}")
        elif isinstance(step, Transform):
            texts.append(f"transform {function_identity(step.function)}")
        elif isinstance(step, Explode):
            made = f"explode {parse(step.expression).text} as {', '.join(step.made)}"
            texts.append(f"{made} outer" if step.outer else made)
        elif isinstance(step, PythonStep):
            gives = "" if step.schema is None else step.schema.ddl()
            texts.append(f"{step.word} {function_identity(step.function)} gives {gives}")
            texts[-1] += "".join(f" with {table!r}" for table in step.sides)
        elif isinstance(step, TableJoin):
            texts.append(f"{step.how} join {step.table.name}({step.table.schema.ddl()}) on {', '.join(step.on)}")
            texts[-1] += f" as {step.prefix} valid {step.table.valid_from} {step.table.valid_to}"
    return " | ".join(texts)


def _windows(window: Window) -> str:
    if isinstance(window, Custom):
        return f"{window!r} {function_identity(window.function)}"
    if isinstance(window, CustomMerging):
        merge = "" if window.grouper is None else function_identity(window.grouper)
        return f"{window!r} {function_identity(window.opener)} {merge}"
    return repr(window)


def _watermarks(view: View) -> str:
    return ", ".join(f"{source.name}: {source.watermark!r}" for source in view.input.sources)
