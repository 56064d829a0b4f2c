"""Windows, triggers, watermarks and aggregates as SQL writes them. What only Python can say is refused.

>>> from penstock.model.triggers import every, on_time
>>> show_trigger(on_time(early=every("10 seconds")))
'EARLY EVERY 10 SECONDS ON TIME'
"""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.model import aggregates as agg
from penstock.model import triggers as when
from penstock.model import watermarks as marks
from penstock.model import windows as where
from penstock.model.time import Duration, show_duration


def only_python(what: object) -> DefinitionError:
    """The error for what SQL has no words for."""
    return DefinitionError(f"SQL cannot express {what!r}", hint="it holds a Python function; define it in Python")


def quoted(text: str) -> str:
    """A text in single quotes.

    >>> print(quoted("it's"))
    'it\\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def interval(micros: Duration) -> str:
    return f"INTERVAL {span(micros)}"


def span(micros: Duration) -> str:
    return show_duration(micros).upper()


# Windows


def show_window(window: where.Window, relation: str = "stream", time: str = "time") -> str:
    """FROM this: TUMBLE(relation, time, …), or the relation itself for the global window."""
    match window:
        case where.Global():
            return relation
        case where.Fixed():
            return f"TUMBLE({relation}, {time}, {interval(window.size)}{_offset(window.offset)})"
        case where.Sliding():
            steps = f"{interval(window.every)}, {interval(window.size)}"
            return f"HOP({relation}, {time}, {steps}{_offset(window.offset)})"
        case where.Cumulating():
            steps = f"{interval(window.step)}, {interval(window.size)}"
            return f"CUMULATE({relation}, {time}, {steps}{_offset(window.offset)})"
        case where.Session():
            return f"SESSION({relation}, {time}, {interval(window.gap)})"
        case where.Calendar():
            week = f", {quoted(window.week_start)}" if window.week_start != "monday" else ""
            zone = f", {quoted(window.zone)}" if window.zone != "UTC" or week else ""
            return f"CALENDAR({relation}, {time}, {quoted(window.unit)}{zone}{week})"
        case where.Named() if window == where.window_of():
            return relation
        case where.CountWindow():
            every = f", {window.every}" if window.every != window.size else ""
            return f"COUNT_WINDOW({relation}, {window.size}{every})"
    raise only_python(window)


def _offset(offset: Duration) -> str:
    return f", {interval(offset)}" if offset else ""


# Triggers


def show_trigger(trigger: when.Trigger) -> str:
    """EMIT this."""
    match trigger:
        case when.OnTime():
            early = "" if trigger.early == when.Never() else f"EARLY {_inside(trigger.early)} "
            unchanged = " UNLESS UNCHANGED" if trigger.unchanged == "skip" else ""
            late = "" if trigger.late == when.AfterCount(1) else f" LATE {_inside(trigger.late)}"
            return f"{early}ON TIME{unchanged}{late}"
        case when.Every():
            return f"EVERY {span(trigger.delay)}"
        case when.AfterDelay():
            return f"AFTER {span(trigger.delay)}"
        case when.AfterCount():
            return f"AFTER {trigger.count} ROWS"
        case when.Completeness():
            return f"AFTER {trigger.percent:g} PERCENT"
        case when.OnClose():
            return "FINAL"
        case when.Never():
            return "NEVER"
        case when.Repeatedly():
            return "CHANGES" if trigger.part == when.AfterCount(1) else f"REPEATEDLY ({show_trigger(trigger.part)})"
        case when.AnyOf() | when.AllOf() | when.InTurn():
            word = {when.AnyOf: "ANY OF", when.AllOf: "ALL OF", when.InTurn: "IN TURN"}[type(trigger)]
            return f"{word} ({', '.join(map(show_trigger, trigger.several))})"
        case when.OrFinally():
            return f"{_inside(trigger.part)} OR FINALLY {_inside(trigger.last)}"
    raise only_python(trigger)


def _inside(trigger: when.Trigger) -> str:
    """A trigger as a part of another."""
    text = show_trigger(trigger)
    return f"({text})" if isinstance(trigger, (when.OnTime, when.OrFinally)) else text


# Watermarks


def show_watermark(time: str, watermark: marks.Watermark) -> str:
    """WATERMARK FOR this."""
    default: Duration | None = marks.DEFAULT_IDLE
    match watermark:
        case marks.Percentile():
            clause = f"PERCENTILE({time}, {watermark.percent:g})"
        case marks.Punctuated():
            clause, default = f"PUNCTUATED({watermark.mark})", None
        case marks.Bounded():
            clause = f"{time} - {interval(watermark.delay)}" if watermark.delay else time
        case _:
            raise only_python(watermark)
    if watermark.idle != default:
        clause += " IDLE NEVER" if watermark.idle is None else f" IDLE AFTER {span(watermark.idle)}"
    return f"{time} AS {clause}"


# Aggregates

_NAMES: dict[type[agg.Aggregate], str] = {
    agg.Sum: "sum", agg.Avg: "avg", agg.Min: "min", agg.Max: "max", agg.Variance: "variance", agg.VarPop: "var_pop",
    agg.Stddev: "stddev", agg.StddevPop: "stddev_pop", agg.First: "first", agg.Last: "last", agg.MinBy: "min_by",
    agg.MaxBy: "max_by", agg.CollectList: "collect_list", agg.CollectSet: "collect_set",
    agg.ApproxDistinct: "approx_count_distinct", agg.Quantile: "percentile_approx", agg.Top: "top",
    agg.HeavyHitters: "heavy_hitters", agg.SecondMoment: "second_moment",
}  # fmt: skip


def show_aggregate(aggregate: agg.Aggregate) -> str:
    """The call, with its filter."""
    called = _called(aggregate)
    return called if aggregate.where is None else f"{called} FILTER (WHERE {aggregate.where})"


def _called(aggregate: agg.Aggregate) -> str:
    if isinstance(aggregate, agg.Count):
        return f"count({aggregate.x or '*'})"
    if isinstance(aggregate, agg.CountDistinct):
        return f"count(DISTINCT {aggregate.x})"
    if isinstance(aggregate, agg.Paired):
        return _paired(aggregate)
    if type(aggregate) not in _NAMES:
        raise only_python(aggregate)
    inputs = list(aggregate.inputs)
    match aggregate:
        case agg.Top():
            inputs = [str(aggregate.k), aggregate.by, *([] if aggregate.value is None else [aggregate.value])]
            inputs += ["ties => true"] if aggregate.ties else []
        case agg.Quantile():
            several = aggregate.q if isinstance(aggregate.q, tuple) else None
            q = f"array({', '.join(map(_number, several))})" if several is not None else _number(aggregate.q)
            inputs = [*inputs, q, *_option("k", aggregate.k, 200)]
        case agg.ApproxDistinct():
            inputs += _option("lg_k", aggregate.lg_k, 12)
        case agg.HeavyHitters():
            inputs += [*_option("limit", aggregate.limit, 10), *_option("size", aggregate.size, 1024)]
        case agg.SecondMoment():
            inputs += [*_option("width", aggregate.width, 256), *_option("depth", aggregate.depth, 5)]
        case agg.CollectList():
            inputs += _option("order", quoted(aggregate.order), quoted("time"))
    return f"{_NAMES[type(aggregate)]}({', '.join(inputs)})"


def _paired(pair: agg.Paired) -> str:
    live, batch = pair.live, pair.batch
    if not (isinstance(live, agg.ApproxDistinct) and batch == agg.count_distinct(live.x, where=live.where)):
        raise DefinitionError(f"SQL cannot express {pair!r}", hint="define the view in Python")
    return f"{_called(live)[:-1]}, exact_in_batch => true)"


def _option(name: str, value: object, default: object) -> list[str]:
    return [] if value == default else [f"{name} => {value}"]


def _number(value: object) -> str:
    return f"{value!r}D" if isinstance(value, float) and "e" in repr(value) else repr(value)
