"""Alerts against a small reference: what fires after each commit, on the reference, the kernel and the engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

import penstock as ps
from penstock.dataflow.alert_stream import alert
from penstock.model.changes import carried
from penstock.model.time import BEGINNING, SECOND, Instant
from penstock.model.view import View
from penstock.testing import TestStream, run
from tests.strategies import DEEP

#: Only the script moves the watermark.
SOURCE = ps.stream(
    "src", schema="k string, v bigint, at timestamp", event_time="at", watermark=ps.bounded("1 day", idle=None),
    max_ahead=None,
)  # fmt: skip
#: A view, and how long after the end of a window the next one ends, in seconds.
CASES: dict[str, tuple[View, int | None]] = {
    "on time": (SOURCE.group_by("k").window(ps.fixed("10 seconds")).agg(v=ps.sum("v"), n=ps.count()), 10),
    "late": (
        SOURCE.group_by("k").window(ps.fixed("10 seconds")).agg(v=ps.sum("v"))
        .trigger(ps.on_time(early=ps.each(), late=ps.each())).allow_late("20 seconds"), 10,
    ),
    "retracting": (
        SOURCE.group_by("k").window(ps.fixed("10 seconds")).agg(v=ps.min("v"))
        .trigger(ps.on_time(early=ps.each(), late=ps.each())).retracting().allow_late("20 seconds"), 10,
    ),
    "on close": (
        SOURCE.group_by("k").window(ps.fixed("10 seconds")).agg(v=ps.sum("v")).trigger(ps.on_close())
        .allow_late("5 seconds"), 10,
    ),
    "sliding": (
        SOURCE.group_by("k").window(ps.sliding("20 seconds", every="5 seconds")).agg(v=ps.avg("v"))
        .trigger(ps.on_time(early=ps.each())), 5,
    ),
    "sessions": (
        SOURCE.group_by("k").window(ps.session("7 seconds")).agg(v=ps.sum("v"))
        .trigger(ps.on_time(early=ps.each())).retracting(), 7,
    ),
    "no windows": (SOURCE.group_by("k").agg(v=ps.last("v"), n=ps.count()), None),
    "no windows, two keys": (SOURCE.group_by("k", "v % 2 AS odd").agg(v=ps.sum("v")).retracting(), None),
    "no key": (SOURCE.group_by().window(ps.fixed("10 seconds")).agg(v=ps.sum("v")), 10),
}  # fmt: skip
NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)


def script(random: Random, restarts: bool = True) -> TestStream:
    """Events near the watermark, which goes on now and then."""
    made, mark = TestStream(SOURCE), 0
    for _ in range(14):
        rows = [
            (random.choice(["a", "b", None]), random.choice([-3, 0, 1, 2, 9]), _clock(mark + random.randrange(-25, 30)))
            for _ in range(random.randrange(4))
        ]
        made = made.add(*rows) if rows else made.clock("+1 second")
        if random.random() < 0.6:
            mark += random.choice([1, 4, 5, 10, 11, 30])
            made = made.watermark(_clock(mark))
        if restarts and random.random() < 0.1:
            made = made.restart()
    return made


def _clock(second: int) -> str:
    return f"12:{10 + second // 60:02}:{second % 60:02}"


def _noon(second: int) -> datetime:
    return NOON + timedelta(seconds=second)


def expected(view: View, step: int | None, steps: TestStream, limit: int) -> list[set[tuple[object, ...]]]:
    """The keys that fire after each commit: those with a window that holds, and whose next one has not ended."""
    panes = run(view, steps, "reference").fired
    holding: dict[tuple[object, ...], set[tuple[Instant, Instant]]] = {}
    fires, mark = [], BEGINNING
    for number, commit in enumerate((one for one in steps.commits() if one is not None), 1):
        mark = max([mark, *commit.fixed.values()])
        for pane in (fired.pane for fired in panes if fired.commit == number):
            value = pane.values[view.values.index("v")]
            windows = holding.setdefault(pane.key, set())
            windows.discard(pane.window)
            if pane.kind == "insert" and value is not None and value > limit:  # type: ignore[operator]
                windows.add(pane.window)
        now = carried(view, mark)
        firing = {
            key for key, windows in holding.items() if any(step is None or w.end + step * SECOND > now for w in windows)
        }
        fires.append(firing)
    return fires


def observed(made: View, steps: TestStream, engine: str) -> tuple[list[set[tuple[object, ...]]], list[dict]]:
    """The same as an alert's view shows it, with the panes in which it does."""
    result = run(made, steps, engine)  # type: ignore[arg-type]
    assert not result.dead
    states: dict[tuple[object, ...], str] = {}
    fires = []
    for number, _ in enumerate((one for one in steps.commits() if one is not None), 1):
        for fired in result.fired:
            if fired.commit == number:
                states[fired.pane.key] = dict(zip(made.values, fired.pane.values, strict=True))["state"]
        fires.append({key for key, state in states.items() if state == "firing"})
    return fires, result.panes


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ["reference", "kernel", "engine"])
def test_what_fires_after_each_commit_is_what_the_reference_says(case: str, engine: str):
    view, step = CASES[case]
    made = alert("hot", "rows", view, "v > 2").view
    for seed in range(30 if DEEP else 4 if engine == "engine" else 8):
        steps = script(Random(f"{case} {seed}"))
        assert observed(made, steps, engine)[0] == expected(view, step, steps, 2), f"seed {seed}"


@pytest.mark.parametrize("case", CASES)
def test_changes_take_turns_and_all_engines_give_the_same(case: str):
    made = alert("hot", "rows", CASES[case][0], ps.col("v") > 2)
    keys = [key for key, _ in made.view.keys]
    changes = made.stream.group_by(*keys, "number").agg(state=ps.last("state"), times=ps.count())
    for seed in range(4):
        steps = script(Random(f"turns {case} {seed}"))
        now = observed(made.view, steps, "reference")[1]
        assert now == observed(made.view, steps, "kernel")[1] == observed(made.view, steps, "engine")[1]
        by_key: dict[tuple[object, ...], dict[object, object]] = {}
        for row in run(changes, steps, "engine").table:
            assert row["times"] == 1
            by_key.setdefault(tuple(row[key] for key in keys), {})[row["number"]] = row["state"]
        for states in by_key.values():
            wanted = {n: "firing" if n % 2 else "resolved" for n in range(1, len(states) + 1)}
            assert states == wanted


BY_KEY = SOURCE.group_by("k").window(ps.fixed("10 seconds")).agg(v=ps.sum("v"))


def test_an_alert_says_since_when_and_for_which_window_and_is_resolved_without_rows_too():
    made = alert("hot", "rows", BY_KEY, "v > 2").view
    steps = TestStream(SOURCE, clock=NOON).add(("a", 3, "12:00:01")).clock("+5 seconds").watermark("12:00:10")
    (row,) = run(made, steps).table
    assert (row["k"], row["v"], row["state"]) == ("a", 3, "firing")
    assert (row["window_from"], row["window_to"]) == (_noon(0), _noon(10))
    assert row["since"] == row["changed_at"] == _noon(5)
    (row,) = run(made, steps.clock("+7 seconds").watermark("12:00:20")).table
    assert (row["state"], row["v"], row["window_from"]) == ("resolved", None, None)
    assert (row["since"], row["changed_at"]) == (_noon(5), _noon(12))


def test_an_alert_goes_on_while_one_window_after_the_other_holds():
    made = alert("hot", "rows", BY_KEY, "v > 2").view
    steps = TestStream(SOURCE)
    for second in (0, 10, 20):
        steps = steps.add(("a", 5, _clock(second))).watermark(_clock(second + 10))
    steps = steps.add(("a", 1, _clock(30))).watermark(_clock(40))
    assert [pane["state"] for pane in run(made, steps).panes] == ["firing", "resolved"]


@pytest.mark.parametrize(
    ("view", "when", "reason"),
    [
        (BY_KEY, "v", "is not a condition"),
        (BY_KEY, "w > 1", "w"),
        (BY_KEY, "sum(v) > 1", "aggregate"),
        (SOURCE.group_by("k AS state").agg(v=ps.sum("v")), "v > 1", "has a column 'state', and so has an alert"),
        (BY_KEY.trigger(ps.on_time(early=ps.each())).discarding(), "v > 1", "parts of its windows"),
        (SOURCE.group_by("k").agg(v=ps.sum("v")).trigger(ps.never()), "v > 1", "fires no panes"),
    ],
)
def test_what_cannot_be_an_alert_is_refused(view: View, when: str, reason: str):
    with pytest.raises(ps.DefinitionError, match=reason):
        alert("hot", "rows", view, when)
