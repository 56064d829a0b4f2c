"""A view's definition in full: the way of an event, every default that applies, and who evaluates each expression."""

from __future__ import annotations

from penstock.model.stream import Flow, Piped, Step, Stream, Union
from penstock.model.time import show_duration
from penstock.model.view import View


def explain(view: View) -> str:
    """The text of `View.explain()`."""
    lines = ["input", *(f"  {line}" for line in _flow(view.input)), "view"]
    lines.append(f"  what          {', '.join(f'{name} = {a!r}' for name, a in view.aggregates)}")
    lines.append(f"  by            {', '.join(_named(name, text) for name, text in view.keys) or 'no key'}")
    lines.append(f"  where         {view.windows!r}")
    lines.append(f"  when          {view.firing!r}{_trigger_note(view)}")
    lines.append(f"  how           {view.accumulation}")
    lines.append(f"  lateness      {_lateness(view)}")
    if view.signed:
        lines.append("  retractions   taken: aggregates keep an inverse or multiplicities")
    for name, aggregate in view.aggregates:
        if aggregate.tolerance:
            lines.append(f"  approximate   {name}: {aggregate.tolerance}")
    lines.append("expressions")
    lines += [f"  {line}" for line in _expressions(view)] or ["  none"]
    return "\n".join(lines)


def _flow(flow: Flow) -> list[str]:
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


def _stream_rules(stream: Stream) -> list[str]:
    rules = [f"event time    {stream.event_time or 'none'}"]
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
        return "  (late elements: at each commit, unless said otherwise)" if view.lateness else ""
    return ""


def _lateness(view: View) -> str:
    if not view.windows.ends_in_event_time:
        return "none: the window has no end in event time"
    if not view.lateness:
        return "0 seconds: a window closes when the watermark reaches its end"
    return f"{show_duration(view.lateness)} after its end a window closes; later elements go to the late stream"


def _expressions(view: View) -> list[str]:
    if view.input.schema is None:
        return [f"{text}  · by Spark: the columns come out of a transform" for text in view.expressions]
    lines = []
    for text in view.expressions:
        bound = view.bound(text)
        who = f"by Spark: {bound.outside}" if bound.outside else f"by the kernel, {bound.type}"
        lines.append(f"{bound.text}  · {who}")
    return lines


def _named(name: str, text: str) -> str:
    return name if name == text else f"{name} = {text}"
