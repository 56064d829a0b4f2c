"""Random views, random streams and random cuts of them, small enough that windows, keys and times collide."""

from __future__ import annotations

import datetime
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.changes import origins
from penstock.model.reach import check_reach
from penstock.model.windows import CountBased, Global, Window
from penstock.testing import DAY, TestStream

SECOND = 1_000_000
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
#: What a script may do next: mostly it adds rows.
STEPS = ["add"] * 4 + ["watermark", "clock", "restart", "backlog", "caught up"]
SCHEMA = "k string, f double, v int, at timestamp, id bigint, mark timestamp, sign int"


def cases(default: int, deep: int = 20) -> settings:
    """How many examples: few by default, many in the deep run. Never a deadline: these machines are shared."""
    return settings(
        max_examples=default * deep if DEEP else max(default // 3, 2),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def seconds(low: int, high: int) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(lambda n: f"{n} seconds")


def around(at: datetime.datetime, v: int | None) -> list[tuple[datetime.datetime, datetime.datetime]]:
    """A custom window: as long as the row says, none for some rows."""
    length = datetime.timedelta(seconds=(v or 0) % 7)
    return [(at - length, at + datetime.timedelta(seconds=3))] if length else []


def own_gap(at: datetime.datetime, v: int | None) -> tuple[datetime.datetime, datetime.datetime]:
    """A session whose gap each row brings along."""
    return at, at + datetime.timedelta(seconds=1 + (v or 0) % 9)


def pairs(windows: list[tuple[datetime.datetime, datetime.datetime]]) -> list[list[int]]:
    """Merges windows that start in the same ten seconds."""
    groups: dict[int, list[int]] = {}
    for number, (start, _) in enumerate(windows):
        groups.setdefault(int(start.timestamp()) // 10, []).append(number)
    return list(groups.values())


#: How long views without windows keep a key: about as long as the streams are disordered.
RETENTIONS = st.one_of(seconds(0, 30), seconds(0, 10))


def aligned_windows() -> st.SearchStrategy[Window]:
    return st.one_of(
        st.builds(lambda s, o: ps.fixed(s, offset=o), seconds(1, 20), seconds(0, 7)),
        st.builds(lambda s, e, o: ps.sliding(s, every=e, offset=o), seconds(2, 20), seconds(1, 9), seconds(0, 5)),
        st.builds(
            lambda step, times, o: ps.cumulating(f"{step * times} seconds", step=f"{step} seconds", offset=o),
            st.integers(1, 6), st.integers(1, 4), seconds(0, 5),
        ),
        st.sampled_from([ps.calendar("day"), ps.calendar("month", zone="Europe/Berlin")]),
    )  # fmt: skip


def windows() -> st.SearchStrategy[Window]:
    return st.one_of(
        aligned_windows(),
        seconds(1, 15).map(ps.session),
        seconds(1, 15).map(ps.session),
        st.builds(lambda n, e: ps.count_window(n, every=e), st.integers(1, 5), st.integers(1, 6)),
        st.just(ps.global_window()),
        st.just(ps.custom(around, "v")),
        st.sampled_from([ps.custom_merging(own_gap, "v"), ps.custom_merging(own_gap, "v", merge=pairs)]),
    )


def triggers(window: Window, percentile: bool, depth: int = 2) -> st.SearchStrategy[ps.model.triggers.Trigger]:
    return _triggers(window, percentile, depth).filter(lambda trigger: _reached(trigger, window))


def _reached(trigger: ps.model.triggers.Trigger, window: Window) -> bool:
    """Whether every part of a trigger can have its turn: others are refused."""
    try:
        check_reach(trigger, window)
    except DefinitionError:
        return False
    return True


def _triggers(window: Window, percentile: bool, depth: int) -> st.SearchStrategy[ps.model.triggers.Trigger]:
    leaves = [
        st.integers(1, 4).map(ps.after_count),
        seconds(1, 12).map(ps.every),
        seconds(0, 12).map(ps.after_delay),
        st.just(ps.each()),
    ]
    if window.ends:
        leaves += [st.just(ps.on_close()), st.just(ps.on_time(late=ps.never()))]
    if window.ends_in_event_time and percentile:
        leaves.append(st.sampled_from([30.0, 80.0, 99.0]).map(ps.after_completeness))
    leaf = st.one_of(leaves)
    if depth == 0:
        return leaf
    inner = triggers(window, percentile, depth - 1)
    composed = [
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ps.any_of(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ps.all_of(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: ps.in_turn(*parts)),
        inner.map(ps.repeatedly),
        st.builds(lambda a, b: a.or_finally(b), inner, inner),
    ]
    if window.ends:
        child = st.one_of(st.none(), inner, st.just(ps.never()))
        composed += [
            st.builds(
                lambda early, late, u: ps.on_time(early=early, late=late, unchanged=u),
                child,
                child,
                st.sampled_from(["fire", "skip"]),
            )
        ] * 3
    return st.one_of(leaf, *composed)


def aggregates(signed: bool) -> st.SearchStrategy[ps.model.aggregates.Aggregate]:
    where = st.sampled_from([None, "v > 2", "k = 'a'", "v % 2 = 0"])
    common = [
        st.builds(lambda w: ps.count(where=w), where),
        st.builds(lambda w: ps.count("v", where=w), where),
        st.builds(lambda w: ps.sum("v", where=w), where),
        st.builds(lambda w: ps.avg("v", where=w), where),
        st.builds(lambda w: ps.min("v", where=w), where),
        st.builds(lambda w: ps.max("f", where=w), where),
        st.just(ps.variance("v")),
        st.just(ps.first("v")),
        st.just(ps.last("k")),
        st.just(ps.max_by("k", "v")),
        st.just(ps.min_by("v", "f")),
        st.just(ps.top(2, "v", value="k")),
        st.just(ps.collect_list("v")),
        st.just(ps.collect_set("k")),
        st.just(ps.count_distinct("v")),
        st.just(ps.second_moment("v")),
        st.just(ps.sum("10 / v", where="v <> 0")),
    ]
    if not signed:
        common += [st.just(ps.approx_distinct("v")), st.just(ps.sum("10 / v"))]
        common.append(st.just(ps.approx_distinct("v", where="v > 0").in_batch(ps.count_distinct("v", where="v > 0"))))
    return st.one_of(common)


@st.composite
def streams(draw: st.DrawFn, name: str = "s", percentile: bool | None = None, signed: bool = False) -> ps.Stream:
    idle = draw(st.one_of(st.none(), seconds(5, 20)))
    use_percentile = draw(st.booleans()) if percentile is None else percentile
    if use_percentile:
        watermark = ps.percentile(draw(st.sampled_from([50.0, 90.0, 100.0])), idle=idle)
    else:
        watermark = draw(
            st.one_of(
                st.builds(lambda d: ps.bounded(d, idle=idle), seconds(0, 15)),
                st.just(ps.punctuated("mark", idle=idle)),
            )
        )
    return ps.stream(
        name,
        schema=SCHEMA,
        event_time="at",
        watermark=watermark,
        sign="sign" if signed else None,
        id=draw(st.sampled_from([None, None, "id"])),
        id_horizon=draw(seconds(5, 60)),
        max_ahead=draw(st.sampled_from(["1 day", "12 hours 1 minute"])),
    )


def shifted(row: Any) -> dict[str, object]:
    """A row function that fails on some rows."""
    if row.v == 5:
        raise ValueError("five")
    return {**row.as_dict(), "v": None if row.v is None else row["v"] + 1}


def repeated(row: Any) -> list[tuple[object, ...]]:
    """As many rows as a row says, the later ones first in time; some of them are not rows."""
    second = datetime.timedelta(seconds=1)
    made = [(row.k, row.f, row.v + n, row.at - n * second, row.sign) for n in range((row.v or 0) % 4)]
    return [*made, ("too", "short")] if row.v == 6 else made


def divides(row: Any) -> bool:
    """A condition that fails on some rows."""
    return 10 // row.v > 2


COLUMNS = "k string, f double, v int, at timestamp, sign int"


@st.composite
def python_steps(draw: st.DrawFn, flow: ps.model.stream.Flow) -> ps.model.stream.Flow:
    """A flow with one more step that makes rows of rows."""
    match draw(st.sampled_from(["map", "flat_map", "filter", "explode", "explode"])):
        case "map":
            return flow.select("k", "f", "v", "at", "sign").map(shifted, schema=COLUMNS)
        case "flat_map":
            return flow.flat_map(repeated, schema=COLUMNS)
        case "filter":
            return flow.filter(divides)
        case _:
            texts = ["array(v, 1, v + 1)", "array(v, CAST(NULL AS INT))", "array(cast(10 div v as int))"]
            texts += ["if(v > 3, NULL, array(v))"]
            made = flow.explode(f"{draw(st.sampled_from(texts))} AS w", outer=draw(st.booleans()), position="place")
            return made.select("k", "f", "at", "sign", v=draw(st.sampled_from(["w", "w + place", "coalesce(w, v)"])))


@st.composite
def views(draw: st.DrawFn, window: st.SearchStrategy[Window] | None = None, python: bool = True) -> ps.View:
    signed = draw(st.sampled_from([False, False, False, True]))
    percentile = draw(st.booleans())
    flow: ps.model.stream.Flow = draw(streams(percentile=percentile, signed=signed))
    if draw(st.integers(0, 3)) == 0:
        flow = flow.union(draw(streams("other", percentile=percentile, signed=signed)))
    steps = ["where", "select", "with_time", *(["python"] if python else [])]
    for step in draw(st.lists(st.sampled_from(steps), max_size=3)):
        if step == "where":
            flow = flow.where(draw(st.sampled_from(["v IS NOT NULL", "v <> 3", "k > 'a' OR v > 1"])))
        elif step == "select":
            flow = flow.select("k", "f", "at", "sign", v=draw(st.sampled_from(["v + 1", "v", "coalesce(v, 0)"])))
        elif step == "python":
            flow = draw(python_steps(flow))
        else:
            flow = flow.with_time("at + INTERVAL 1 SECOND")
    chosen = draw(
        (windows() if window is None else window).filter(lambda w: not (signed and isinstance(w, CountBased)))
    )
    keys = draw(st.sampled_from([(), ("k",), ("k",), ("f",), ("k", "f")]))
    named = draw(st.dictionaries(st.sampled_from("mnopq"), aggregates(signed), min_size=1, max_size=3))
    view = flow.group_by(*keys).window(chosen).agg(**named)
    if draw(st.integers(0, 3)):
        view = view.trigger(draw(triggers(chosen, percentile)))
    how = draw(
        st.sampled_from(["accumulating", "retracting"] if signed else ["discarding", "accumulating", "retracting"])
    )
    view = getattr(view, how)()
    view = draw(shown(view))
    if chosen.ends_in_event_time:
        view = view.allow_late(draw(st.sampled_from(["0 seconds", "0 seconds", "5 seconds", "20 seconds", "1 hour"])))
    elif isinstance(chosen, Global) and keys and draw(st.booleans()):
        view = view.retain(draw(RETENTIONS))
    return view


@st.composite
def shown(draw: st.DrawFn, view: ps.View) -> ps.View:
    """Now and then a view shows something else than its aggregates, or not every window."""
    if draw(st.integers(0, 3)):
        return view
    numbers = [name for name, kind in view.value_types.items() if kind in ("bigint", "double", "int")]
    any_name = view.values[0]
    conditions = [f"{any_name} IS NOT NULL", *(f"{name} > 1" for name in numbers), *(f"1 / {n} > 0" for n in numbers)]
    values = [f"{any_name} IS NULL", *(f"{name} + 1" for name in numbers), *(f"10 / {name}" for name in numbers)]
    if view.windows.ends_in_event_time:
        values.append("window_end")
    if draw(st.booleans()):
        view = view.select(*draw(st.sampled_from([(), (any_name,)])), other=draw(st.sampled_from(values)))
    if draw(st.booleans()):
        view = view.having(draw(st.sampled_from(conditions)))
    return view


@st.composite
def views_over(draw: st.DrawFn, lower: ps.View, name: str) -> ps.View:
    """A view over another one, which is made to take back what it shows."""
    if lower.firing == ps.never():
        lower = lower.trigger(ps.each())
    if lower.accumulation == "accumulating" and lower.firing != ps.on_close():
        lower = lower.retracting()
    changes = lower.changes(name)
    columns = {column: kind for column, kind in changes.schema if not column.startswith(("__", "window_", "final"))}
    numbers = [column for column, kind in columns.items() if kind in ("int", "bigint", "double")]
    plain = [column for column, kind in columns.items() if not kind.startswith("array")]
    made = [ps.count(), ps.count(where="final"), *(ps.count_distinct(column) for column in plain)]
    for column in numbers:
        made += [ps.sum(column), ps.avg(column), ps.min(column), ps.max(column), ps.top(2, column), ps.last(column)]
    flow: ps.model.stream.Flow = changes
    if numbers and draw(st.integers(0, 3)) == 0:
        flow = flow.where(f"{draw(st.sampled_from(numbers))} > 1")
    window: st.SearchStrategy[Window] = st.just(ps.global_window())
    if lower.windows.ends_in_event_time:
        window = st.one_of(window, st.just(ps.window_of()), aligned_windows(), seconds(1, 15).map(ps.session))
    chosen = draw(window)
    keys = draw(st.sampled_from([(), *((column,) for column in plain)]))
    named = draw(st.dictionaries(st.sampled_from("wxyz"), st.sampled_from(made), min_size=1, max_size=3))
    view = flow.group_by(**{f"by_{key}": key for key in keys}).window(chosen).agg(**named)
    if draw(st.integers(0, 2)) == 0:
        view = view.trigger(draw(triggers(chosen, percentile=False)))
    if draw(st.booleans()):
        view = view.retracting()
    if chosen.ends_in_event_time:
        view = view.allow_late(draw(st.sampled_from(["0 seconds", "5 seconds", "1 hour"])))
    elif keys and lower.windows.ends_in_event_time and draw(st.booleans()):
        view = view.retain(draw(RETENTIONS))
    return view


@st.composite
def cascades(draw: st.DrawFn) -> ps.View:
    """A view over a view, or one more above that."""
    view = draw(views_over(draw(views()), "first"))
    return draw(views_over(view, "second")) if draw(st.booleans()) else view


@st.composite
def rows(draw: st.DrawFn, clock: int) -> dict[str, object]:
    base = DAY + 12 * 3600 * SECOND
    at = draw(st.one_of(st.integers(0, 90), st.integers(max(0, clock - 10), clock + 10)))
    far = draw(st.integers(0, 40)) == 0
    return {
        "k": draw(st.sampled_from(["a", "a", "b", None])),
        "f": draw(st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])),
        "v": draw(st.one_of(st.integers(0, 6), st.none())),
        "at": None if draw(st.integers(0, 40)) == 0 else base + (at + 86_400 * far) * SECOND,
        "id": draw(st.one_of(st.integers(0, 12), st.none(), st.integers(13, 500))),
        "mark": draw(st.sampled_from([None, None, None, base + max(0, at - 10) * SECOND])),
        "sign": draw(st.sampled_from([1, 1, 1, -1])),
        "partition": draw(st.integers(0, 2)),
    }


@st.composite
def scripts(draw: st.DrawFn, view: ps.View, longest: int = 9) -> TestStream:
    streams = origins(view)
    script = TestStream(*streams, clock=DAY + 12 * 3600 * SECOND)
    clock = 0
    for _ in range(draw(st.integers(1, longest))):
        match draw(st.sampled_from(STEPS)):
            case "add":
                to = draw(st.sampled_from(streams)).name
                script = script.add(*draw(st.lists(rows(clock), min_size=1, max_size=8)), to=to)
            case "watermark":
                script = script.watermark(DAY + (12 * 3600 + draw(st.integers(0, 120))) * SECOND)
            case "clock":
                step = draw(st.integers(1, 30))
                clock += step
                script = script.clock(f"+{step} seconds")
            case "restart":
                script = script.restart()
            case "backlog":
                script = script.backlog()
            case "caught up":
                script = script.caught_up()
    return script
