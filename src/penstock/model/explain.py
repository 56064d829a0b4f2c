"""A view's definition in full: the way of an event, every default that applies, and who evaluates each expression.

>>> import penstock as ps
>>> people = ps.stream("people", schema="name string, age int").where("soundex(name) = 'B000'").group_by("age")
>>> print("\\n".join(explain(people.agg(n=ps.count())).splitlines()[-4:]))
  lateness      none: the window has no end in event time
expressions
  SOUNDEX(name) = 'B000'  · by Catalyst, as a column: the function soundex is outside the kernel
  age  · by the kernel, int
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.model.aggregates.paired import Paired, exactness, written
from penstock.model.changes import Changes
from penstock.model.expressions import bind, parse
from penstock.model.stream import Branch, Flow, Piped, Step, Stream, Transform, Union, branches
from penstock.model.time import show_duration
from penstock.model.triggers import OnTime
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.watermarks import Punctuated


def explain(view: View, others: Mapping[str, View] | None = None) -> str:
    """The text of `View.explain()`; with the app's other views, also what it shares with them."""
    lines = ["input", *(f"  {line}" for line in _flow(view.input)), "view"]
    lines.append(f"  what          {', '.join(f'{name} = {a!r}' for name, a in written(view.aggregates))}")
    lines.append(f"  by            {', '.join(_named(name, text) for name, text in view.keys) or 'no key'}")
    lines.append(f"  where         {view.windows!r}")
    lines.append(f"  when          {view.firing!r}{_trigger_note(view)}")
    lines.append(f"  how           {view.accumulation}")
    lines.append(f"  lateness      {_lateness(view)}")
    if view.windows.ends_in_event_time or view.forgets:
        lines.append(f"  retention     {_retention(view)}")
    if view.signed:
        lines.append("  retractions   taken: aggregates keep an inverse or multiplicities")
    for name, aggregate in view.aggregates:
        if aggregate.tolerance:
            which = f"; {exactness(name)} says which" if isinstance(aggregate, Paired) else ""
            lines.append(f"  approximate   {name}: {aggregate.tolerance}{which}")
    lines.append("expressions")
    lines += [f"  {line}" for line in _expressions(view)] or ["  none"]
    shared = _shared(view, others or {})
    if shared:
        lines += ["shared", *(f"  {line}" for line in shared)]
    return "\n".join(lines)


def _flow(flow: Flow) -> list[str]:
    if isinstance(flow, Changes):
        return [f"changes of the view {flow.name} ({flow.schema.ddl()})", *_change_rules(flow)]
    if isinstance(flow, Stream):
        return [_stream(flow), *_stream_rules(flow)]
    if isinstance(flow, Union):
        return ["union of", *(f"  {line}" for part in flow.several for line in _flow(part))]
    assert isinstance(flow, Step)
    label = flow.label
    if isinstance(flow, Piped):
        label = f"{label}  (a composite: {_inside(flow)})"
    return [*_flow(flow.input), f"→ {label}"]


def _inside(piped: Piped) -> str:
    steps: list[str] = []
    flow: Flow = piped.output
    while isinstance(flow, Step) and flow is not piped.input:
        steps.append(flow.label)
        flow = flow.input
    return " → ".join(reversed(steps)) or "nothing"


def _stream(stream: Stream) -> str:
    return f"stream {stream.name} ({stream.schema.ddl()})"


def _change_rules(changes: Changes) -> list[str]:
    waits = "" if isinstance(changes.of.firing, OnTime) or not changes.of.lateness else ", when its windows are closed"
    time = "none" if changes.event_time is None else "just before the end of its window"
    return [f"    event time    {time}", f"    watermark     that of the view{waits}"]


def _stream_rules(stream: Stream) -> list[str]:
    rules = [f"event time    {stream.event_time or 'none'}"]
    if not getattr(stream.log, "replayable", True):
        rules.append("replay        none: what its log has sent and no commit holds is lost when the app is killed")
    if stream.watermark is not None:
        idle = stream.watermark.idle
        rules.append(f"watermark     {stream.watermark!r}")
        rules.append(
            "idle          never"
            if idle is None
            else f"idle          after {show_duration(idle)} without events, while all of the log is read"
        )
    if stream.id is not None:
        rules.append(f"duplicates    by {stream.id}, within {show_duration(stream.id_horizon)} of event time")
    if stream.event_time is not None:
        ahead = "any" if stream.max_ahead is None else f"at most {show_duration(stream.max_ahead)}"
        rules.append(f"ahead         {ahead} of the clock; further ones are dead letters")
    return [f"    {rule}" for rule in rules]


def _trigger_note(view: View) -> str:
    if repr(view.firing).startswith("ps.on_time"):
        return "  (late elements: at each commit, unless set otherwise)" if view.lateness else ""
    return ""


def _retention(view: View) -> str:
    if view.retention is None:
        return "not set: finished windows are kept permanently"
    if view.forgets:
        return f"a key stays for {show_duration(view.retention)} after its newest element, in event time"
    return f"finished windows stay for {show_duration(view.retention)} after their end, in event time"


def _lateness(view: View) -> str:
    if not view.windows.ends_in_event_time:
        return "none: the window has no end in event time"
    if not view.lateness:
        return "0 seconds: a window closes when the watermark reaches its end"
    return f"{show_duration(view.lateness)} after its end a window closes; later elements go to the late stream"


# Who evaluates what


def _expressions(view: View) -> list[str]:
    lines = {}
    for branch in branches(view.input):
        for text, schema in _on_the_way(branch):
            if schema is None or text not in schema:  # what is just a column needs no one
                lines[_spelled(text, schema)] = _who(text, schema)
    for text in view.expressions:
        lines[_spelled(text, view.input.schema)] = _who(text, view.input.schema)
    return [f"{text}  · {who}" for text, who in lines.items()]


def _who(text: str, schema: Schema | None) -> str:
    if schema is None:
        return "by the kernel or Catalyst: the columns are known when the app starts"
    bound = bind(text, schema)
    return f"by Catalyst, as a column: {bound.outside}" if bound.outside else f"by the kernel, {bound.type}"


def _spelled(text: str, schema: Schema | None) -> str:
    return parse(text).text if schema is None else bind(text, schema).text


def _on_the_way(branch: Branch) -> Iterator[tuple[str, Schema | None]]:
    """The expressions of a stream and of the steps after it, each with the columns that it is about.

    What comes before DataFrame code is Spark's in any case.
    """
    source = branch.source
    own = [source.event_time, source.id, source.sign]
    own += [source.watermark.mark] if isinstance(source.watermark, Punctuated) else []
    yield from ((text, source.schema) for text in own if text is not None)
    code = max((number for number, step in enumerate(branch.steps) if isinstance(step, Transform)), default=-1)
    for step in branch.steps[code + 1 :]:
        yield from ((text, step.input.schema) for text in step.texts)


def _shared(view: View, others: Mapping[str, View]) -> list[str]:
    """With which other views this one shares scans, DataFrame code and Catalyst's columns."""
    lines: list[str] = []
    for scan, what in _scans(view).items():
        names = [name for name, other in others.items() if scan in _scans(other)]
        lines += [f"{what}, with {', '.join(names)}"] if names else []
    own_columns = _by_catalyst(view)
    for text in own_columns:
        names = [name for name, other in others.items() if text in _by_catalyst(other)]
        lines += [f"the column {text}, with {', '.join(names)}"] if names else []
    return lines


def _scans(view: View) -> dict[tuple[object, ...], str]:
    """What a view reads: its streams, and what DataFrame code makes of them."""
    scans: dict[tuple[object, ...], str] = {}
    for branch in branches(view.input):
        name = branch.source.name
        scans[name,] = f"one scan of {name}"
        for number, step in enumerate(branch.steps):
            if isinstance(step, Transform):
                scans[name, number, step.function] = f"one run of {step.label}"
    return scans


def _by_catalyst(view: View) -> list[str]:
    if view.input.schema is None:
        return []
    bound = [view.bound(text) for text in view.expressions]
    return [one.text for one in bound if one.outside]


def _named(name: str, text: str) -> str:
    return name if name == text else f"{name} = {text}"
