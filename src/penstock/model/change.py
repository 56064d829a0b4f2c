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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.model.changes import Changes
from penstock.model.explode import Explode
from penstock.model.expressions import parse
from penstock.model.naming import function_identity
from penstock.model.row_steps import PythonStep
from penstock.model.stream import Branch, Flow, Select, Transform, Where, WithTime, branches
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
    lines = [
        *_input(view),
        *(f"key {name} = {parse(text).text}" for name, text in view.keys),
        _windows(view.windows),
        *(f"{name} = {aggregate.describe()}" for name, aggregate in view.aggregates),
        *(f"shows {name} = {parse(text).text}" for name, text in view.shown or ()),
        *([] if view.condition is None else [f"having {parse(view.condition).text}"]),
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


#: The parts of a definition that decide about time: the state lives on when they change. All others make the state.
TIME_PARTS: Final = ("trigger", "accumulation", "lateness", "retention", "watermark")
_PERMANENT: Final = "permanent"
_AGAIN: Final = "the state was computed from other inputs: replace the view"
_SHOWS: Final = "finished windows are stored in their final form: replace the view"
_WHY: Final = {
    "shown": _SHOWS,
    "having": _SHOWS,
    "trigger": "windows that are open start with a fresh trigger",
    "accumulation": "from the next pane on",
    "lateness": "windows that are closed stay closed",
    "watermark": "a watermark never goes back",
}
_AGGREGATE: Final = "aggregate "


def parts(view: View) -> dict[str, str]:
    """All that a definition says, part by part. These texts are what two definitions are compared by."""
    aggregates = {f"{_AGGREGATE}{name}": aggregate.describe() for name, aggregate in view.aggregates}
    return {
        "input": input_text(view.input),
        "keys": ", ".join(f"{name} = {parse(text).text}" for name, text in view.keys),
        "window": _windows(view.windows),
        **aggregates,
        "shown": ", ".join(f"{name} = {parse(text).text}" for name, text in view.shown or ()),
        "having": "" if view.condition is None else parse(view.condition).text,
        "trigger": repr(view.firing),
        "accumulation": view.accumulation,
        "lateness": show_duration(view.lateness),
        "retention": _PERMANENT if view.retention is None else show_duration(view.retention),
        "watermark": _watermarks(view),
    }


def changes(old: View, new: View) -> tuple[Change, ...]:
    """What differs, and whether the state can live on."""
    return compared(parts(old), parts(new))


def compared(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """The same for definitions as their parts."""
    differences = [
        _change(part, old.get(part), new.get(part), old, new)
        for part in dict.fromkeys([*old, *new])
        if old.get(part) != new.get(part)
    ]
    return tuple(sorted(differences, key=lambda change: (change.allowed, change.what)))


def _change(part: str, before: str | None, after: str | None, old: Mapping[str, str], new: Mapping[str, str]) -> Change:
    if part.startswith(_AGGREGATE) and after is None:
        return Change(part, before or "–", "–", True, "its column is dropped")
    if part.startswith(_AGGREGATE) and before is None:
        why = "it would miss all events so far: replace the view"
        return Change(part, "–", after or "–", False, why)
    why = _why_retention(old, new) if part == "retention" else _WHY.get(part, _AGAIN)
    return Change(part, before or "–", after or "–", part in TIME_PARTS, why)


def _why_retention(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    is_global = repr(Global())
    if new.get("window") != is_global:
        return "windows that were dropped stay dropped"
    forgot = old.get("window") == is_global and old.get("retention") != _PERMANENT
    return "keys that were dropped stay dropped" if forgot else "existing keys count as touched now"


def input_text(flow: Flow) -> str:
    """The way from the streams through a flow, as a text. What only decides about time is left out."""
    return "; ".join(sorted(_branch(branch) for branch in branches(flow)))


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
            explosion = f"explode {parse(step.expression).text} as {', '.join(step.made)}"
            texts.append(f"{explosion} outer" if step.outer else explosion)
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
