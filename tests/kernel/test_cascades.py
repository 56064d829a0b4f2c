"""Views over views: random cascades on random streams, against the reference and against recomputation.

The recomputation knows nothing of state: it keeps the panes that stand of the view below, and aggregates them anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.local import LocalKernel
from penstock.model.chain import chained
from penstock.model.changes import all_below, change_rows, in_order, origins
from penstock.model.reference import Reference
from penstock.testing import TestStream, replay, run
from tests.comparison import differences, same
from tests.kernel.test_against_reference import cut_with
from tests.strategies import cascades, cases, scripts, streams, triggers

BIDS = ps.stream(
    "bids", schema="auction bigint, price int, at timestamp", event_time="at", watermark=ps.bounded("4 seconds")
)
#: What a pane and its retraction do not have in common.
APART = ("__change", "final")
COUNTS = BIDS.group_by("auction").window(ps.sliding("10 seconds", every="5 seconds")).agg(n=ps.count()).retracting()


@cases(80, deep=60)
@given(cascades(), st.data())
def test_any_cascade_gives_the_same_panes_table_and_refusals(view, data):
    script = data.draw(scripts(view))
    cut = cut_with(data.draw(st.integers(0, 1000)))
    note(repr(view))
    note("\n".join(map(repr, script.steps)))
    expected = replay(view, script, chained(view, Reference))
    got = replay(view, script, chained(view, lambda one: LocalKernel(one, cut)))
    assert not (found := differences(expected, got)), "\n".join(found)


@st.composite
def statistics(draw: st.DrawFn) -> tuple[ps.View, ps.View, ps.View]:
    """Maxima of a stream, how often each is there, and how often each of those is: nothing is ever late above."""
    stream = replace(draw(streams(percentile=False)), id=None)
    window = draw(
        st.sampled_from([ps.fixed("7 seconds"), ps.sliding("9 seconds", every="4 seconds"), ps.session("5 s")])
    )
    first = stream.group_by("k").window(window).agg(m=ps.max("v"), n=ps.count()).retracting()
    first = first.trigger(draw(triggers(window, percentile=False)))
    first = first.allow_late(draw(st.sampled_from(["0 seconds", "5 seconds", "1 hour"])))
    second = first.changes("first").group_by("m").agg(
        rows=ps.count(), total=ps.sum("n"), most=ps.max("n"), least=ps.min("n"), kinds=ps.count_distinct("k"),
        best=ps.top(2, "n"),
    ).retracting()  # fmt: skip
    third = second.changes("second").group_by("rows").agg(times=ps.count(), mean=ps.avg("total")).retracting()
    return first, second, third


@cases(40, deep=60)
@given(statistics(), st.data())
def test_after_every_commit_each_view_is_what_stands_below_it(given, data):
    first, second, third = given
    script = data.draw(scripts(third))
    note(repr(third))
    note("\n".join(map(repr, script.steps)))
    runners = {name: chained(view, LocalKernel) for name, view in zip("abc", given, strict=True)}
    standing: dict[str, Counter[tuple[tuple[str, object], ...]]] = {"a": Counter(), "b": Counter()}
    for commit in script.commits():
        if commit is None:
            runners = {name: runner.restart() for name, runner in runners.items()}
            continue
        for name, view in (("a", first), ("b", second), ("c", third)):
            panes, refused = runners[name].commit(commit)
            assert name == "a" or not refused
            for row in change_rows(view, panes) if name != "c" else ():
                entry = tuple((c, tuple(v) if isinstance(v, list) else v) for c, v in row.items() if c not in APART)
                standing[name][entry] += int(str(row["__change"]))
        assert not any(count < 0 for counts in standing.values() for count in counts.values())
        check(runners["b"].table(), standing["a"], "m", counted)
        check(runners["c"].table(), standing["b"], "rows", averaged)


def check(table, standing, key, aggregate):
    groups = defaultdict(list)
    for entry, count in standing.items():
        groups[dict(entry)[key]] += [dict(entry)] * count
    expected = {value: aggregate(rows) for value, rows in groups.items() if rows}
    assert {row.key[0]: True for row in table} == dict.fromkeys(expected, True)
    for row in table:
        assert same(list(row.values), list(expected[row.key[0]])), row


def counted(rows):
    numbers = sorted((row["n"] for row in rows), reverse=True)
    kinds = len({row["k"] for row in rows} - {None})
    return len(rows), sum(numbers), numbers[0], numbers[-1], kinds, numbers[:2]


def averaged(rows):
    return len(rows), sum(row["total"] for row in rows) / len(rows)


def test_a_view_of_the_windows_below_fires_with_them():
    hot = COUNTS.changes("counts").window(ps.window_of()).agg(most=ps.max("n"), auctions=ps.count())
    script = TestStream(BIDS).add((1, 5, "12:00:01"), (2, 5, "12:00:02"), (1, 7, "12:00:03")).watermark("12:00:10")
    for engine in ("reference", "kernel"):
        assert [(p["commit"], p["most"], p["auctions"], p["timing"]) for p in run(hot, script, engine).panes] == [
            (2, 2, 2, "on time"), (2, 2, 2, "on time"),
        ]  # fmt: skip


def test_what_would_count_twice_or_never_is_refused():
    with pytest.raises(DefinitionError, match="it would count twice"):
        COUNTS.accumulating().changes("counts")
    with pytest.raises(DefinitionError, match="fires no panes"):
        COUNTS.trigger(ps.never()).changes("counts")
    with pytest.raises(DefinitionError, match="by the view's name"):
        COUNTS.changes()
    assert COUNTS.accumulating().trigger(ps.on_close()).changes("counts").schema is not None


def test_views_are_put_in_order_and_known_by_their_streams():
    second = COUNTS.changes("counts").group_by("n").agg(auctions=ps.count()).retracting()
    third = second.changes("second").group_by().agg(levels=ps.count())
    assert list(in_order({"third": third, "second": second, "counts": COUNTS})) == ["counts", "second", "third"]
    assert list(all_below(third)) == ["counts", "second"]
    assert origins(third) == (BIDS,)


def test_another_view_below_is_another_view_above():
    other = BIDS.group_by("auction").window(ps.fixed("10 seconds")).agg(n=ps.count()).retracting()
    above, beside = (view.changes("counts").group_by().agg(n=ps.count()) for view in (COUNTS, other))
    assert above.fingerprint() != beside.fingerprint()
    assert (
        above.fingerprint() == COUNTS.allow_late("1 hour").changes("counts").group_by().agg(n=ps.count()).fingerprint()
    )
