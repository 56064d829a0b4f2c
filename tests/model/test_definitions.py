"""Definitions are values: they print as their constructor, compare by content, and refuse what cannot mean anything."""

from __future__ import annotations

import pytest
from hypothesis import given

import penstock as ps
from penstock.model.change import changes
from penstock.model.windows import Window
from tests.strategies import around, cases, divides, own_gap, pairs, repeated, shifted, views

SCHEMA = "k string, v int, at timestamp"
TIMED = ps.stream("s", schema=SCHEMA, event_time="at", watermark=ps.bounded("10 seconds"))
UNTIMED = ps.stream("s", schema=SCHEMA)
SIGNED = ps.stream("s", schema=SCHEMA + ", diff int", event_time="at", watermark=ps.bounded("10 seconds"), sign="diff")
MINUTE = ps.fixed("1 minute")
BY_MINUTE = TIMED.group_by("k").window(MINUTE).agg(n=ps.count())
BY_THREE = TIMED.group_by("k").window(ps.count_window(3)).agg(n=ps.count())

REFUSED = {
    "unknown column in a key": (
        lambda: TIMED.group_by("kk").agg(n=ps.count()),
        "unknown column 'kk'",
        "did you mean 'k'",
    ),
    "unknown column in an aggregate": (
        lambda: TIMED.group_by("k").agg(n=ps.sum("w")),
        "unknown column 'w'",
        "there are: at, k, v",
    ),
    "unknown column in a filter": (
        lambda: TIMED.group_by("k").agg(n=ps.count(where="vv > 1")),
        "unknown column 'vv'",
        "'v'",
    ),
    "unknown column in a where": (lambda: TIMED.where("kk = 'a'"), "unknown column 'kk'", "did you mean"),
    "an unknown name in what a view shows": (
        lambda: TIMED.group_by("k").agg(total=ps.count()).having("totl > 1"),
        "unknown column 'totl'",
        "did you mean 'total'",
    ),
    "a condition on a view that is not a condition": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).having("n + 1"),
        "is bigint, and must be boolean",
        "having('n + 1')",
    ),
    "something only Spark can compute in what a view shows": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).select(x="sha2(k, 256)"),
        "cannot be computed from a view's answers",
        "when you query the view",
    ),
    "what a view shows twice": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).select(k="n"),
        "'k' appears twice",
        "different names",
    ),
    "a window without event time": (
        lambda: UNTIMED.group_by("k").window(MINUTE).agg(n=ps.count()),
        "needs an event time",
        "event_time=",
    ),
    "a window without a watermark": (
        lambda: ps.stream("s", schema=SCHEMA, event_time="at").group_by("k").window(MINUTE).agg(n=ps.count()),
        "needs a watermark",
        "ps.bounded",
    ),
    "lateness with a global window": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).allow_late("1 minute"),
        "allowed lateness has no effect on",
        "leave out allow_late",
    ),
    "lateness with a count window": (
        lambda: TIMED.group_by("k").window(ps.count_window(3)).agg(n=ps.count()).allow_late("1 s"),
        "allowed lateness",
        "leave out",
    ),
    "a monoid that is not commutative": (
        lambda: TIMED.group_by("k").agg(
            x=ps.monoid("join", "k", lift=lambda k: k or "", merge=lambda a, b: a + b, zero="")
        ),
        "commutative",
        "",
    ),
    "retraction into a sketch": (
        lambda: SIGNED.group_by("k").agg(u=ps.approx_distinct("v")),
        "approx_distinct",
        "count_distinct",
    ),
    "count windows of signed rows": (
        lambda: SIGNED.group_by("k").window(ps.count_window(2)).agg(n=ps.count()),
        "cannot take retractions",
        "event time",
    ),
    "discarding panes of signed rows": (
        lambda: SIGNED.group_by("k").agg(n=ps.count()).discarding(),
        "retractions",
        "retracting",
    ),
    "on_time in a global window": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).trigger(ps.on_time()),
        "can never fire",
        "ps.each()",
    ),
    "on_close in a global window": (
        lambda: TIMED.group_by("k").agg(n=ps.count()).trigger(ps.on_close()),
        "can never fire",
        "",
    ),
    "completeness without percentiles": (
        lambda: TIMED.group_by("k").window(MINUTE).agg(n=ps.count()).trigger(ps.after_completeness(90)),
        "can never fire",
        "ps.percentile",
    ),
    "all_of with never": (
        lambda: TIMED.group_by("k").window(MINUTE).agg(n=ps.count()).trigger(ps.all_of(ps.each(), ps.never())),
        "can never fire",
        "leave that part out",
    ),
    "a trigger in turn behind one that never finishes": (
        lambda: BY_MINUTE.trigger(ps.in_turn(ps.each(), ps.after_count(2))),
        "ps.after_count(2) is never reached: ps.each()",
        "or_finally",
    ),
    "a trigger in turn behind every": (
        lambda: BY_MINUTE.trigger(ps.in_turn(ps.after_count(1), ps.every("1 s"), ps.each())),
        "ps.each() is never reached",
        "put it last",
    ),
    "a trigger in turn behind on_time with late panes": (
        lambda: BY_MINUTE.trigger(ps.in_turn(ps.on_time(), ps.each())),
        "never finishes",
        "put it last",
    ),
    "a trigger in turn behind any_of without an end": (
        lambda: BY_MINUTE.trigger(ps.in_turn(ps.any_of(ps.each(), ps.every("1 s")), ps.after_count(9))),
        "is never reached",
        "put it last",
    ),
    "a trigger in turn behind the close": (
        lambda: BY_MINUTE.trigger(ps.in_turn(ps.on_close(), ps.each())),
        "finishes only when the window closes",
        "put it last",
    ),
    "a trigger in turn behind the end of a count window": (
        lambda: BY_THREE.trigger(ps.in_turn(ps.on_time(late=ps.never()), ps.each())),
        "finishes only when the window closes",
        "put it last",
    ),
    "an unreachable part within another trigger": (
        lambda: BY_MINUTE.trigger(ps.repeatedly(ps.in_turn(ps.each(), ps.after_count(2)))),
        "is never reached",
        "put it last",
    ),
    "or_finally with never": (
        lambda: BY_MINUTE.trigger(ps.each().or_finally(ps.never())),
        "never fires",
        "write only ps.each()",
    ),
    "early panes at the close": (
        lambda: BY_MINUTE.trigger(ps.on_time(early=ps.on_close())),
        "early=ps.on_close() never fires",
        "leave it out",
    ),
    "late panes of a count window": (
        lambda: BY_THREE.trigger(ps.on_time(late=ps.after_count(2))),
        "late=ps.after_count(2) never fires",
        "leave it out",
    ),
    "a window of negative size": (lambda: ps.fixed("-1 minute"), "must be above zero", ""),
    "a window of no size": (lambda: ps.sliding("1 minute", every="0 seconds"), "must be above zero", ""),
    "a negative lateness": (
        lambda: TIMED.group_by("k").window(MINUTE).agg(n=ps.count()).allow_late("-1 s"),
        "must not be negative",
        "",
    ),
    "a negative gap": (lambda: ps.session("-1 s"), "must be above zero", ""),
    "a negative delay": (lambda: ps.bounded("-1 s"), "must not be negative", ""),
    "a count of zero": (lambda: ps.after_count(0), "above zero", ""),
    "a count window of zero": (lambda: ps.count_window(0), "above zero", ""),
    "a step that does not divide": (lambda: ps.cumulating("1 hour", step="7 minutes"), "does not divide", "multiple"),
    "an unknown zone": (lambda: ps.calendar("day", zone="Mars/Olympus"), "unknown time zone", "IANA"),
    "an unknown unit": (lambda: ps.calendar("mont"), "unknown calendar unit", "did you mean 'month'"),
    "a percentage above 100": (lambda: ps.percentile(101), "percentage", ""),
    "no duration": (lambda: ps.fixed("soon"), "not a duration", "write a number and a unit"),
    "a month as a duration": (lambda: ps.fixed("1 month"), "not a duration", "ps.calendar"),
    "no aggregate": (lambda: TIMED.group_by("k").agg(), "needs an aggregate", "ps.count()"),
    "a value that is not an aggregate": (lambda: TIMED.group_by("k").agg(n=3), "is not an aggregate", "ps.sum"),
    "a reserved name": (lambda: TIMED.group_by("k").agg(final=ps.count()), "every view has", "another name"),
    "a name twice": (lambda: TIMED.group_by("k").agg(k=ps.count()), "appears twice", ""),
    "an expression without a name": (lambda: TIMED.group_by("lower(k)"), "needs a name", "AS name"),
    "a filter that is not a condition": (
        lambda: TIMED.group_by("k").agg(n=ps.count(where="v + 1")),
        "must be boolean",
        "",
    ),
    "an event time that is not of type timestamp": (
        lambda: ps.stream("s", schema=SCHEMA, event_time="v"),
        "must be timestamp",
        "CAST",
    ),
    "a sum of text": (lambda: TIMED.group_by("k").agg(n=ps.sum("k")), "cannot take", ""),
    "a union of different columns": (
        lambda: TIMED.union(TIMED.select("k")),
        "same columns",
        "select the common columns",
    ),
    "a pipe that returns no stream": (lambda: TIMED.pipe(lambda s: 3), "must return a stream", ""),
    "a retention of count windows": (
        lambda: TIMED.group_by("k").window(ps.count_window(3)).agg(n=ps.count()).retain("1 day"),
        "no end in event time",
        "leave out retain",
    ),
    "a retention of one row": (
        lambda: TIMED.group_by().agg(n=ps.count()).retain("1 day"),
        "one row, which always stays",
        "group by a key",
    ),
    "a retention without event time": (
        lambda: ps.stream("s", schema="k string").group_by("k").agg(n=ps.count()).retain("1 day"),
        "keys expire by event time, and 's' has none",
        "event_time='…'",
    ),
    "a retention without a watermark": (
        lambda: ps.stream("s", schema=SCHEMA, event_time="at").group_by("k").agg(n=ps.count()).retain("1 day"),
        "keys expire by the watermark",
        "watermark=ps.bounded",
    ),
    "a retention over the changes of a view without windows": (
        lambda: (
            TIMED.group_by("k")
            .agg(n=ps.count())
            .retracting()
            .changes("c")
            .group_by("n")
            .agg(m=ps.count())
            .retain("1 d")
        ),
        "keys expire by event time, and 'c' has none",
        "leave out retain",
    ),
    "no window": (lambda: TIMED.group_by("k").window("1 minute"), "not a window", "ps.fixed"),
    "no trigger": (lambda: TIMED.group_by("k").agg(n=ps.count()).trigger("each"), "not a trigger", "ps.on_time"),
    "broken SQL": (lambda: TIMED.where("v > "), "", ""),
    "an unknown type": (lambda: ps.stream("s", schema="k strin"), "unknown type 'strin'", "there are"),
    "a column twice": (lambda: ps.stream("s", schema="k int, K int"), "declared twice", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_definition_is_refused_with_what_to_do(name):
    make, message, more = REFUSED[name]
    with pytest.raises(ps.DefinitionError) as refused:
        make()
    assert message in str(refused.value)
    assert more in str(refused.value)


@cases(200)
@given(views())
def test_a_view_prints_as_its_constructor(view):
    functions = (around, own_gap, pairs, shifted, repeated, divides)
    names = {"ps": ps, **{function.__name__: function for function in functions}}
    again = eval(repr(view), names)
    assert again == view
    assert hash(again) == hash(view)
    assert again.fingerprint() == view.fingerprint()


def test_the_fingerprint_is_the_same_for_every_spelling_and_differs_for_another_meaning():
    view = TIMED.where("v>1 and k='a'").group_by("k").window(MINUTE).agg(n=ps.count())
    same = TIMED.where("v > 1 AND k = 'a'").group_by("k").window(ps.fixed("60 seconds")).agg(n=ps.count())
    assert view.fingerprint() == same.fingerprint()
    other = TIMED.where("v > 2 AND k = 'a'").group_by("k").window(MINUTE).agg(n=ps.count())
    assert view.fingerprint() != other.fingerprint()


def test_a_retention_may_come_change_and_go_while_the_state_of_a_view_without_windows_lives_on():
    view = TIMED.group_by("k").agg(n=ps.count())
    week = view.retain("7 days")
    assert repr(week).endswith(".agg(n=ps.count()).retain('7 days')")
    assert view.fingerprint() == week.fingerprint()
    pairs = [(view, week), (week, view.retain("1 day")), (week, view)]
    assert [[(c.what, c.allowed, c.why) for c in changes(old, new)] for old, new in pairs] == [
        [("retention", True, "existing keys count as touched now")],
        [("retention", True, "keys that were dropped stay dropped")],
        [("retention", True, "keys that were dropped stay dropped")],
    ]


def test_what_decides_about_time_may_change_and_what_the_state_is_made_of_may_not():
    view = TIMED.group_by("k").window(MINUTE).agg(n=ps.count(), s=ps.sum("v"))
    faster = ps.stream("s", schema=SCHEMA, event_time="at", watermark=ps.bounded("1 second"))
    allowed = faster.group_by("k").window(MINUTE).agg(n=ps.count()).trigger(ps.each()).retracting().allow_late("1 hour")
    assert {change.what for change in changes(view, allowed)} == {
        "aggregate s", "trigger", "accumulation", "lateness", "watermark",
    }  # fmt: skip
    assert all(change.allowed for change in changes(view, allowed))
    for other in (
        TIMED.group_by(k="upper(k)").window(MINUTE).agg(n=ps.count(), s=ps.sum("v")),
        TIMED.group_by("k").window(ps.fixed("2 minutes")).agg(n=ps.count(), s=ps.sum("v")),
        TIMED.group_by("k").window(MINUTE).agg(n=ps.count(where="v > 1"), s=ps.sum("v")),
        TIMED.group_by("k").window(MINUTE).agg(n=ps.count(), s=ps.sum("v"), m=ps.max("v")),
        TIMED.where("v > 1").group_by("k").window(MINUTE).agg(n=ps.count(), s=ps.sum("v")),
    ):
        assert [change for change in changes(view, other) if not change.allowed]


def test_a_changed_function_is_another_definition():
    def windows(length):
        return ps.custom(lambda at: [(at, at + length)])

    one, two = windows(1), ps.custom(around, "v")
    assert isinstance(one, Window)
    assert one != two


def test_explain_names_every_default_and_who_evaluates_what():
    def cleaned(flow):
        return flow.where("v IS NOT NULL").select("k", "at", v="v * 2")

    view = TIMED.pipe(cleaned).group_by("k", day="date_format(at, 'yyyy')").window(MINUTE).agg(n=ps.count())
    text = view.explain()
    for part in (
        "watermark     ps.bounded('10 seconds')",
        "after 1 minute without events",
        "at most 1 day of the clock",
        "→ pipe(",
        "a composite",
        "when          ps.on_time()",
        "how           accumulating",
        "closes when the watermark reaches its end",
        "by the kernel, string",
        "by Catalyst, as a column: the function date_format is outside the kernel",
    ):
        assert part in text, text


def test_a_view_behind_dataframe_code_waits_for_spark():
    flow = TIMED.transform(lambda df: df)
    view = flow.group_by("anything").window(MINUTE).agg(n=ps.count())
    with pytest.raises(ps.DefinitionError, match="only Spark knows the columns"):
        _ = view.input_schema
    known = TIMED.transform(lambda df: df, schema="word string, at timestamp")
    with pytest.raises(ps.DefinitionError, match="unknown column"):
        known.group_by("anything").agg(n=ps.count())
