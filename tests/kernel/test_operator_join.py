"""Joins of streams on columns: the kernel equals the reference, commit by commit, and each rule by itself.

What each shape can reach: signed rows - retractions that find their row in the state, in the same commit, or nowhere;
several partitions - which of equal rows goes; unions of a stream with itself - rows that share a position; small bounds
on candidates - chunks and cells of time; shards - anything that looks beyond its key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.operators.base import OperatorTime
from penstock.kernel.operators.join import UNMATCHED
from penstock.kernel.operators.join_side import JoinSide
from penstock.model.commits import Commit, Event
from penstock.model.intake import Intake
from penstock.model.join import HOWS, NOT_THERE, StreamJoin, join_behind
from penstock.model.order import exact
from penstock.model.time import END, SECOND
from tests.kernel.join_support import (
    BOUNDED,
    START,
    Answer,
    KernelJoin,
    ReferenceJoin,
    at,
    commits,
    commits_of,
    compared,
    stream,
)
from tests.strategies import cases

LEFT = "k int, f double, v string, u array<double>, at timestamp, sign int"
RIGHT = "id bigint, g double, w array<double>, seen timestamp, change int"
PARTS = [0, 0, 0, 1, 500_000]


def joined(left: ps.Flow, right: ps.Flow, **said) -> StreamJoin:
    join = join_behind(left.join(right, **said))
    assert join is not None
    return join


@st.composite
def joins(draw: st.DrawFn, watermark: Any = BOUNDED) -> StreamJoin:
    signed = draw(st.sampled_from([(False, False), (False, False), (True, True), (True, False), (False, True)]))
    left: ps.Flow = stream("l", LEFT, "at", "sign" if signed[0] else None, watermark)
    right: ps.Flow = stream("r", RIGHT, "seen", "change" if signed[1] else None, watermark)
    if draw(st.integers(0, 4)) == 0:
        left = left.where("k <> 3").union(left.where("k <> 2"))
    if draw(st.integers(0, 4)) == 0:
        right = right.where("g IS NULL OR g <> 7")
    on = draw(st.sampled_from(["k = id", "f = g", "k = id AND f = g", "k % 2 = id % 2"]))
    how = draw(st.sampled_from(HOWS))
    if draw(st.integers(0, 3)) == 0:
        window = ps.fixed(f"{draw(st.integers(1, 12))} seconds", offset=f"{draw(st.integers(0, 5))} seconds")
        return joined(left, right, on=on, how=how, window=window)
    earliest = draw(st.integers(-12, 8))
    latest = draw(st.integers(earliest, 12))
    bounds = draw(st.sampled_from(["inclusive", "exclusive", "left", "right"])) if latest > earliest else "inclusive"
    return joined(
        left, right, on=on, how=how, within=(f"{earliest} seconds", f"{latest} seconds"), bounds=bounds
    )  # fmt: skip


@st.composite
def events(draw: st.DrawFn, clock: int) -> tuple[str, int, dict[str, object]]:
    at = START + (clock + draw(st.integers(-9, 6))) * SECOND + draw(st.sampled_from(PARTS))
    key, number = draw(st.sampled_from([1, 1, 2, 3, None])), draw(st.sampled_from([0.0, -0.0, 7.5, float("nan"), None]))
    sign = draw(st.sampled_from([1, 1, 1, -1]))
    partition = draw(st.integers(0, 1))
    listed = draw(st.sampled_from([[1.0], [0.0], [-0.0], None]))
    if draw(st.booleans()):
        row = {"k": key, "f": number, "v": draw(st.sampled_from("xy")), "u": listed, "at": at, "sign": sign}
        return "l", partition, row
    return "r", partition, {"id": key, "g": number, "w": listed, "seen": at, "change": sign}


def answers(join: StreamJoin, script: list[Commit], *kernels: KernelJoin) -> Iterator[Answer]:
    """The answers of the reference, each compared with those of kernels."""
    for answer, before, _ in compared(join, script, *kernels):
        check_times(join, answer, before)
        yield answer


def check_times(join: StreamJoin, answer: Answer, before: int) -> None:
    """Nothing comes out behind the watermark that the join carries, whichever of its times is the event time."""
    for _, *row in answer.rows:
        values = dict(zip(join.schema.names, row, strict=True))
        times = [values[name][-1] if values[name] != exact(None) else None for name in join.times if name is not None]
        for name, time in zip(join.times, times, strict=False):
            assert time is None or time >= join.carried(before, name)
        assert max(time for time in times if time is not None) >= join.carried(before, join.default_time)


@cases(240, deep=40)
@given(joins(), commits(events, 6), st.sampled_from([1, 3, 1 << 22]))
def test_any_join_gives_what_the_reference_gives(join, script, candidates):
    note(repr((join, join.earliest, join.latest, join.window, script)))
    kernels = KernelJoin(join, candidates=candidates), KernelJoin(join, shards=3)
    list(answers(join, script, *kernels))
    assert all(kernel.waiting == 0 for kernel in kernels), "at the end of time nothing waits"


def net(given: list[Answer]) -> Counter:
    found: Counter = Counter()
    for answer in given:
        for sign, *row in answer.rows:
            found[tuple(row)] += sign
    return Counter({row: count for row, count in found.items() if count})


def in_turn(script: list[Commit]) -> list[Event]:
    """The events one after another, without retractions of what is not there."""
    found, standing = [], Counter()
    for event in (event for commit in script for event in commit.events):
        name = "sign" if event.stream == "l" else "change"
        identity = repr((event.stream, {**event.row, name: 0}))
        standing[identity] += event.row[name]
        if standing[identity] < 0:
            standing[identity] = 0
        else:
            found.append(event)
    return found


def from_scratch(join: StreamJoin, script: list[Event]) -> Counter:
    """The join of all rows that stand in the end, computed as a loop over both."""
    standing: tuple[Counter, Counter] = (Counter(), Counter())
    for side, (name, sign) in enumerate((("l", "sign"), ("r", "change"))):
        for event in (event for event in script if event.stream == name):
            weight = event.row[sign] if join.is_signed(side) else 1
            for key, time, values in flows(join, side, event):
                standing[side][key, time, values] += weight
    left, right = (Counter({row: count for row, count in rows.items() if count}) for rows in standing)
    pairs = [(a, b) for a in left for b in right if None not in a[0] and a[0] == b[0] and join.meet(a[1], b[1])]
    met = {a for a, _ in pairs}, {b for _, b in pairs}
    found: Counter = Counter()
    if join.how in ("semi", "anti"):
        for a in left:
            if (a in met[0]) == (join.how == "semi"):
                found[gives(join, a, None)] += left[a]
        return found
    for a, b in pairs:
        found[gives(join, a, b)] += left[a] * right[b]
    for a in left:
        if join.how in ("left", "full") and a not in met[0]:
            found[gives(join, a, None)] += left[a]
    for b in right:
        if join.how in ("right", "full") and b not in met[1]:
            found[gives(join, None, b)] += right[b]
    return found


def flows(join: StreamJoin, side: int, event: Event) -> Iterator[tuple]:
    """What the steps before the join make of an event: its key, its time, and the values that come out."""
    for element in Intake(join.view(side)).admit(Commit(0, (event,)), []):
        key = tuple(None if value is None else exact(value) for value in element.key)
        values = zip(join.columns(side), element.aggregate_values, strict=False)
        yield key, element.origin.at, tuple((name, exact(value[0])) for name, value in values)


def gives(join: StreamJoin, left: tuple | None, right: tuple | None) -> tuple:
    null = exact(None)
    values = [{} if row is None else dict(row[2]) for row in (left, right)]
    return tuple(values[side % 2].get(own, null) for _, side, own in join.gives)


@cases(300, deep=40)
@given(joins(watermark=ps.punctuated("CAST(NULL AS timestamp)")), commits(events, 6), st.data())
def test_however_epochs_are_cut_all_together_is_the_join_of_all(join, script, data):
    """Here nothing is late, since time stands still to the end."""
    in_order, cut, end = in_turn(script), [], Commit(START, (), dict.fromkeys("lr", END))
    while in_order:
        size = data.draw(st.integers(1, 9))
        cut.append(Commit(START, tuple(in_order[:size])))
        in_order = in_order[size:]
    note(repr((join, join.earliest, join.latest, join.window, cut)))
    want = from_scratch(join, in_turn(script))
    assert net(list(answers(join, [*cut, end], KernelJoin(join)))) == want


#: The rules, one by one


def click(second: float, key: int | None = 1, sign: int = 1, value: str = "x") -> tuple[str, dict[str, object]]:
    return "l", {"k": key, "f": None, "v": value, "u": None, "at": at(second), "sign": sign}


def shown(second: float, key: int | None = 1, sign: int = 1) -> tuple[str, dict[str, object]]:
    return "r", {"id": key, "g": None, "w": None, "seen": at(second), "change": sign}


def play(join: StreamJoin, *script: list[tuple[str, dict[str, object]]] | float) -> tuple[list, KernelJoin]:
    """What comes out after each step, as sign and seconds of both; a step is an epoch, or where the watermark goes."""
    kernel, times = KernelJoin(join), [join.schema.names.index(name) for name in join.times if name is not None]
    found = []
    for answer in answers(join, commits_of(script), kernel):
        rows = [(sign, *(None if row[n] == exact(None) else (row[n][-1] - START) / SECOND for n in times))
                for sign, *row in answer.rows]  # fmt: skip
        found.append(rows + [(kind, reason) for kind, *_, reason in answer.rejected])
    return found, kernel


def of(how: str = "inner", signed: bool = False, within: tuple[str, str] = ("-5 seconds", "2 seconds"), **said):
    still = ps.punctuated("CAST(NULL AS timestamp)")
    left = stream("l", LEFT, "at", "sign" if signed else None, still)
    right = stream("r", RIGHT, "seen", "change" if signed else None, still)
    if "window" not in said:
        said["within"] = within
    return joined(left, right, on="k = id", how=how, **said)


def test_both_ends_belong_to_the_bounds_or_do_not():
    for bounds, want in {"inclusive": [5, 8, 12], "exclusive": [8], "left": [5, 8], "right": [8, 12]}.items():
        found, _ = play(of(bounds=bounds), [click(10), shown(5), shown(8), shown(12), shown(4.999999)])
        assert [row[2] for row in found[0]] == want


def test_bounds_that_exclude_all_are_refused():
    with pytest.raises(DefinitionError, match="no times lie within"):
        of(within=("1 second", "1 second"), bounds="exclusive")
    with pytest.raises(DefinitionError, match="unknown kind of bounds"):
        of(bounds="open")


def test_a_row_is_late_when_it_is_behind_the_watermark_not_when_it_is_at_it():
    found, _ = play(of(), 10.0, [click(10), click(9.999999)], [shown(10)])
    reason = "its time 1970-01-12T13:46:49.999999Z is behind the watermark 1970-01-12T13:46:50Z"
    assert found == [[], [("late", reason)], [(1, 10.0, 10.0)]]


def test_an_outer_join_gives_a_row_alone_just_when_no_partner_can_come():
    found, kernel = play(of("full"), [click(10), shown(20)], 12.0, 12.000001, 25.0, 25.000001)
    assert found == [[], [], [(1, 10.0, None)], [], [(1, None, 20.0)]]
    assert kernel.waiting == 0 or kernel.shards[0]["right"].rows["__end"].min() > at(25.000001)


def test_a_partner_that_comes_in_the_commit_in_which_a_row_is_over_is_found():
    join = of("left")
    kernel, reference = KernelJoin(join), ReferenceJoin(join)
    script = [
        Commit(START, (Event("l", click(10)[1], 0, 0),)),
        Commit(START, (Event("r", shown(12)[1], 0, 0),), dict.fromkeys("lr", at(30))),
    ]
    for commit in script:
        want, before, after = reference.commit(commit)
        got = kernel.commit(commit, before, after)
        assert got.rows == want.rows
    assert len(want.rows) == 1
    assert want.rows[0][-1] != exact(None)


def test_a_semi_join_gives_a_row_with_its_first_partner_and_does_not_keep_it():
    found, kernel = play(of("semi"), [click(10), click(11, 2)], [shown(9)], [shown(10)], END)
    assert found == [[], [(1, 10.0)], [], []]
    found, kernel = play(of("semi"), [click(10), click(11, 2)], [shown(9)])
    assert kernel.shards[0]["left"].rows["k:0"].to_list() == [2]


def test_an_anti_join_gives_a_row_that_is_over_without_a_partner():
    found, _ = play(of("anti"), [click(10), click(10, 2), click(10, None)], [shown(9)], 12.0, 13.0)
    assert found == [[], [], [], [(1, 10.0), (1, 10.0)]]


def test_null_keys_find_nothing_and_come_out_alone_where_the_join_gives_such_rows():
    found, kernel = play(of("inner"), [click(10, None), shown(10, None)])
    assert found == [[]]
    assert kernel.waiting == 0
    found, _ = play(of("full"), [click(10, None), shown(10, None)], END)
    assert found == [[], [(1, 10.0, None), (1, None, 10.0)]]


def test_a_retraction_takes_the_pairs_back_that_its_row_made():
    found, kernel = play(of(signed=True), [click(10), shown(9)], [shown(10)], [click(10, sign=-1)], END)
    assert found == [[(1, 10.0, 9.0)], [(1, 10.0, 10.0)], [(-1, 10.0, 9.0), (-1, 10.0, 10.0)], []]
    found, kernel = play(of(signed=True), [click(10), shown(9)], [click(10, sign=-1), shown(9, sign=-1)])
    assert found[1] == [(-1, 10.0, 9.0)]
    assert kernel.waiting == 0


def test_a_retraction_takes_one_of_several_equal_rows():
    found, kernel = play(of(signed=True), [click(10), click(10)], [shown(10)], [click(10, sign=-1)])
    assert [len(rows) for rows in found] == [0, 2, 1]
    assert kernel.shards[0]["left"].rows["__offset"].to_list() == [0]


def test_what_comes_and_goes_in_one_commit_does_not_come_out():
    found, kernel = play(of(signed=True), [shown(10)], [click(10, sign=-1), click(10)], [click(10), click(10, sign=-1)])
    assert found == [[], [], []]
    assert kernel.waiting == 1


def test_a_retraction_whose_row_is_not_there_is_rejected_and_counted():
    found, kernel = play(of(signed=True), [click(10)], [click(10, sign=-1, value="y")], [click(11, sign=-1)], 11.0,
                         [click(10, sign=-1)])  # fmt: skip
    assert found[1:3] == [[("dead", NOT_THERE)], [("dead", NOT_THERE)]]
    assert found[4][0][0] == "late"
    assert kernel.counters == {UNMATCHED: 2}


def test_a_row_that_loses_its_last_partner_is_alone_again():
    found, _ = play(of("left", signed=True), [click(10), shown(9)], [shown(9, sign=-1)], 13.0)
    assert found == [[(1, 10.0, 9.0)], [(-1, 10.0, 9.0)], [(1, 10.0, None)]]
    found, _ = play(of("semi", signed=True), [click(10), shown(9), shown(9)], [shown(9, sign=-1)], [shown(9, sign=-1)])
    assert found == [[(1, 10.0)], [], [(-1, 10.0)]]
    found, _ = play(of("anti", signed=True), [click(10), shown(9)], [shown(9, sign=-1)], 13.0)
    assert found == [[], [], [(1, 10.0)]]


def test_rows_meet_in_the_same_window():
    join = of("left", window=ps.fixed("10 seconds", offset="3 seconds"))
    found, _ = play(join, [click(3), shown(12.999999), shown(13), shown(2.999999)], [click(14)], 22.999999, 23.0)
    assert found == [[(1, 3.0, 12.999999)], [(1, 14.0, 13.0)], [], []]


def test_state_is_forgotten_in_stretches_of_an_eighth_of_the_time_that_rows_wait():
    hour = of(within=("-1 hour", "0 seconds"))
    assert [JoinSide(hour, side).stretch for side in (0, 1)] == [450 * SECOND] * 2
    assert JoinSide(of(), 0).stretch == SECOND
    _, kernel = play(hour, [shown(0), shown(1)])
    ends = kernel.shards[0]["right"].rows["__end"]
    assert all(at(3600) < end <= at(3600 + 451) and end % (450 * SECOND) == 0 for end in ends)


def test_a_frequent_key_is_joined_in_chunks():
    join = of(within=("-1 second", "1 second"))
    many = [click(n / 10) for n in range(300)], [shown(n / 10) for n in range(300)]
    want, _ = play(join, *many)
    kernel = KernelJoin(join, candidates=50)
    reference = ReferenceJoin(join)
    for step in many:
        commit = Commit(START, tuple(Event(name, row, 0, number) for number, (name, row) in enumerate(step)))
        expected, before, after = reference.commit(commit)
        assert kernel.commit(commit, before, after).rows == expected.rows
    assert len(want[1]) == 300 * 21 - 2 * 55


@pytest.mark.parametrize("how", HOWS)
def test_chunks_of_a_frequent_key_are_bounded_and_make_up_the_whole(how):
    kernel = KernelJoin(of(how, within=("-2 seconds", "0 seconds")), candidates=64)
    some = [*(click(n / 10) for n in range(200)), *(shown(n / 10) for n in range(100))]
    commit = Commit(START, tuple(Event(name, row, 0, number) for number, (name, row) in enumerate(some)))
    sides = [kernel.rows(side, commit, []) for side in (0, 1)]
    time = OperatorTime(0, START + 30 * SECOND, START)
    state = kernel.shards[0]
    chunks: list[pl.DataFrame] = []
    last = kernel.operator.step(sides, state, time, chunks.append).rows
    assert len(chunks) > 10
    partners = 21
    assert max(chunk.height for chunk in chunks) <= 64 + 2 * partners
    assert pl.concat([*chunks, last]).equals(kernel.operator.step(sides, state, time).rows)


def test_a_step_does_not_need_the_number_of_a_row_within_its_event():
    join = of()
    kernel = KernelJoin(join)
    sides = [
        kernel.rows(side, Commit(START, (Event(*click(10), 0, 0), Event(*shown(10), 0, 0))), []) for side in (0, 1)
    ]
    stepped = kernel.step(0, [rows.drop("__nth", strict=False) for rows in sides], OperatorTime(0, 0, START))
    assert stepped.rows.height == 1
    assert stepped.rows.select(pl.col("k", "v")).row(0) == (1, "x")
