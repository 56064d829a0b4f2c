"""Joins with versions on columns: the kernel equals the reference and a recomputation, and each rule by itself.

What each shape can reach: versions in any order and several at one time - which of them counts; retractions - versions
that come back; deletions - tombstones that are forgotten too early; shards - anything that looks beyond its key; NaN,
-0.0 and nulls in keys - comparisons that Polars makes in its own way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.operators.as_of import VERSIONS
from penstock.kernel.operators.join import UNMATCHED
from penstock.model.commits import Commit, Event
from penstock.model.intake import Intake
from penstock.model.join import NOT_THERE, StreamJoin, join_behind
from penstock.model.order import exact
from penstock.model.time import END, SECOND
from tests.kernel.join_support import (
    BOUNDED,
    START,
    Answer,
    KernelJoin,
    at,
    commits,
    commits_of,
    compared,
    stream,
)
from tests.strategies import cases

LEFT = "k int, f double, v string, at timestamp, sign int"
RIGHT = "id bigint, g double, w string, seen timestamp, gone boolean, change int"
STILL = ps.punctuated("CAST(NULL AS timestamp)")


def joined(
    keys: tuple[str, ...] = ("id",), on: str = "k = id", how: str = "left", signed: tuple[bool, bool] = (False, False),
    deleted: bool = True, watermark: Any = BOUNDED, doubled: bool = False,
) -> StreamJoin:  # fmt: skip
    left: ps.Flow = stream("l", LEFT, "at", "sign" if signed[0] else None, watermark)
    right: ps.Flow = stream("r", RIGHT, "seen", "change" if signed[1] else None, watermark)
    if doubled:
        left, right = left.where("k <> 3").union(left.where("k <> 2")), right.where("w = 'x'").union(right)
    join = join_behind(left.join(right.versions(*keys, deleted="gone" if deleted else None), on=on, how=how))
    assert join is not None
    return join


@st.composite
def joins(draw: st.DrawFn, watermark: Any = BOUNDED) -> StreamJoin:
    keys, on = draw(
        st.sampled_from([(("id",), "k = id"), (("g",), "f = g"), (("id", "g"), "k = id AND f = g"),
                         (("id",), "k % 2 = id")])
    )  # fmt: skip
    return joined(
        keys, on, draw(st.sampled_from(["inner", "left"])),
        draw(st.sampled_from([(False, False), (False, False), (True, True), (True, False), (False, True)])),
        draw(st.booleans()), watermark, draw(st.integers(0, 4)) == 0,
    )  # fmt: skip


@st.composite
def events(draw: st.DrawFn, clock: int) -> tuple[str, int, dict[str, object]]:
    at = START + (clock + draw(st.integers(-9, 6))) * SECOND + draw(st.sampled_from([0, 0, 0, 1]))
    key, number = draw(st.sampled_from([0, 1, 1, 3, None])), draw(st.sampled_from([0.0, -0.0, 7.5, float("nan"), None]))
    sign, partition, value = draw(st.sampled_from([1, 1, 1, -1])), draw(st.integers(0, 1)), draw(st.sampled_from("xy"))
    if draw(st.booleans()):
        return "l", partition, {"k": key, "f": number, "v": value, "at": at, "sign": sign}
    gone = draw(st.sampled_from([False, False, None, True]))
    return "r", partition, {"id": key, "g": number, "w": value, "seen": at, "gone": gone, "change": sign}


def answers(join: StreamJoin, script: list[Commit], *kernels: KernelJoin) -> list[Answer]:
    """The answers of the reference, each compared with those of kernels."""
    checked = []
    for answer, before, after in compared(join, script, *kernels):
        times = [row[1 + join.schema.names.index("at")][-1] for row in answer.rows]
        assert times == sorted(times)
        assert all(before <= time < after for time in times), "never behind the watermark that the join carries"
        checked.append(answer)
    return checked


@cases(120, deep=80)
@given(joins(), commits(events, 7))
def test_any_join_with_versions_gives_what_the_reference_gives(join, script):
    note(repr((join, script)))
    kernels = KernelJoin(join), KernelJoin(join, shards=3)
    answers(join, script, *kernels)
    for kernel in kernels:
        assert kernel.waiting == 0, "at the end of time nothing waits"
        for shard in kernel.shards:
            rows = shard[VERSIONS].rows
            assert rows.select("^k:.*$").is_unique().all(), "only the newest version of a key stays"
            assert not join.deleted or not rows["c:gone"].fill_null(value=False).any()


def from_scratch(join: StreamJoin, script: list[Event]) -> Counter:
    """What each row of the left that stands in the end finds among the rows of the right, by a loop over both."""
    standing: tuple[list, list] = ([], [])
    for side, (name, sign) in enumerate((("l", "sign"), ("r", "change"))):
        for event in (event for event in script if event.stream == name):
            taking = join.is_signed(side) and event.row[sign] < 0
            for number, element in enumerate(Intake(join.view(side)).admit(Commit(0, (event,)), [])):
                key = tuple(None if value is None else exact(value) for value in element.key)
                values = {own: v[0] for own, v in zip(join.columns(side), element.aggregate_values, strict=False)}
                compared = tuple(exact(values[own]) for own in join.compared(side))
                place = (event.partition, event.offset, number)
                if not taking:
                    standing[side].append((element.origin.at, place, key, compared, values))
                elif same := [r for r in standing[side] if (r[0], r[2], r[3]) == (element.origin.at, key, compared)]:
                    standing[side].remove(max(same, key=lambda row: row[1]))
    found: Counter = Counter()
    for time, _, key, _, values in standing[0]:
        of_key = [row for row in standing[1] if row[2] == key and row[0] <= time and None not in key]
        newest = max(of_key, key=lambda row: row[:2])[4] if of_key else None
        if newest is not None and join.deleted and newest["gone"]:
            newest = None
        if newest is not None or join.how == "left":
            rows = values, newest or {}
            found[tuple(exact(rows[side % 2].get(own)) for _, side, own in join.gives)] += 1
    return found


@cases(100, deep=80)
@given(joins(watermark=STILL), commits(events, 7), st.data())
def test_in_any_order_and_any_epochs_it_is_what_a_recomputation_finds(join, script, data):
    """Here nothing is late, since time stands still to the end. Retractions follow what they take back."""
    events = [event for commit in script for event in commit.events]
    if not any(join.is_signed(side) for side in (0, 1)):
        events = data.draw(st.permutations(events))
    cut, rest = [], events
    while rest:
        size = data.draw(st.integers(1, 9))
        some, rest = rest[:size], rest[size:]
        if any(event.row["sign" if event.stream == "l" else "change"] < 0 for event in some):
            cut += [Commit(START, (event,)) for event in some]  # in one commit insertions would come first
        else:
            cut.append(Commit(START, tuple(some)))
    note(repr((join, cut)))
    given_rows: Counter = Counter()
    for answer in answers(join, [*cut, Commit(START, (), dict.fromkeys("lr", END))], KernelJoin(join)):
        given_rows.update(tuple(row) for _, *row in answer.rows)
    assert given_rows == from_scratch(join, events)


#: The rules, one by one


def order(second: float, key: int | None = 1, sign: int = 1) -> tuple[str, dict[str, object]]:
    return "l", {"k": key, "f": None, "v": f"{second:g}", "at": at(second), "sign": sign}


def price(
    second: float, value: str, key: int | None = 1, *, gone: bool = False, sign: int = 1
) -> tuple[str, dict[str, object]]:
    return "r", {"id": key, "g": None, "w": value, "seen": at(second), "gone": gone, "change": sign}


def play(join: StreamJoin, *script: list[tuple[str, dict[str, object]]] | float) -> tuple[list, KernelJoin]:
    """What comes out after each step: pairs of order and price. A step is an epoch, or where the watermark goes."""
    kernel, names = KernelJoin(join), join.schema.names
    found = []
    for answer in answers(join, commits_of(script), kernel):
        values = [dict(zip(names, row, strict=True)) for _, *row in answer.rows]
        found.append([tuple(None if row[n] == exact(None) else row[n][-1] for n in ("v", "w")) for row in values])
        found[-1] += [reason for *_, reason in answer.rejected]
    return found, kernel


def test_an_event_finds_the_newest_version_up_to_its_time_and_one_of_the_same_time_counts():
    rows, _ = play(
        joined(watermark=STILL),
        [price(1, "a"), price(5, "b")],
        [order(0), order(1), order(4.9), order(5), order(9)],
        10,
    )
    assert rows[-1] == [("0", None), ("1", "a"), ("4.9", "a"), ("5", "b"), ("9", "b")]


def test_an_inner_join_leaves_out_events_that_find_no_version():
    rows, _ = play(joined(how="inner", watermark=STILL), [price(1, "a")], [order(0), order(1), order(2, 3)], 10)
    assert rows[-1] == [("1", "a")]


def test_an_event_waits_until_the_watermark_has_passed_its_time():
    rows, _ = play(joined(watermark=STILL), [order(3), price(1, "a")], 3, [price(3, "b")], 3.000001)
    assert rows == [[], [], [], [("3", "b")]]


def test_of_versions_at_one_time_the_last_one_counts():
    rows, _ = play(joined(watermark=STILL), [price(1, "a"), price(1, "b")], [order(2)], [price(1, "c")], 5)
    assert rows[-1] == [("2", "c")]


def test_a_version_behind_the_watermark_is_late_and_so_is_an_event():
    rows, _ = play(joined(watermark=STILL), [price(1, "a")], 10, [price(9, "b"), order(9), order(12)], 20)
    reason = "its time 1970-01-12T13:46:49Z is behind the watermark 1970-01-12T13:46:50Z"
    assert rows[2:] == [[reason, reason], [("12", "a")]]


def test_a_deleted_key_has_no_version_until_it_comes_again():
    rows, kernel = play(
        joined(watermark=STILL), [price(1, "a"), price(3, "-", gone=True), price(5, "c")],
        [order(2), order(3), order(4), order(5)], 20, [price(30, "-", gone=True)], 40,
    )  # fmt: skip
    assert rows[2] == [("2", "a"), ("3", None), ("4", None), ("5", "c")]
    assert kernel.shards[0][VERSIONS].rows.height == 0, "of a deleted key nothing is kept"


def test_only_the_newest_version_below_the_watermark_is_kept():
    script: list[Any] = [[price(n, str(n)) for n in range(10)], 5, [order(7)], 8]
    rows, kernel = play(joined(watermark=STILL), *script)
    assert rows[-1] == [("7", "7")]
    assert sorted(kernel.shards[0][VERSIONS].rows["c:w"]) == ["7", "8", "9"]


def test_null_keys_find_nothing_and_versions_without_a_key_are_nobodys():
    rows, kernel = play(joined(watermark=STILL), [price(1, "a", None)], [order(2, None)], 5)
    assert rows[-1] == [("2", None)]
    assert kernel.shards[0][VERSIONS].rows.height == 0


def test_a_version_that_is_taken_back_was_never_there():
    join = joined(signed=(False, True), watermark=STILL)
    rows, _ = play(join, [price(1, "a"), price(3, "b")], [price(3, "b", sign=-1)], [order(4)], 5)
    assert rows[-1] == [("4", "a")]
    rows, _ = play(join, [price(1, "a"), price(3, "b")], 3, [price(3, "b", sign=-1)], [order(4)], 5)
    assert rows[-1] == [("4", "a")], "as long as the watermark has not passed it, the version before is there"


def test_an_event_that_is_taken_back_does_not_come_out_and_what_comes_out_is_final():
    join = joined(signed=(True, False), watermark=STILL)
    assert not join.signed
    rows, kernel = play(join, [price(1, "a")], [order(2), order(3)], [order(2, sign=-1), order(9, sign=-1)], 5)
    assert rows[2:] == [[NOT_THERE], [("3", "a")]]
    assert kernel.counters == {UNMATCHED: 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda left, right: left.join(right.versions("id"), on="k = id", how="full"), "unknown way to join"),
        (lambda left, right: left.join(right.versions("id", "g"), on="k = id"), "the versions are those of 'id', 'g'"),
        (lambda left, right: left.join(right.versions("id"), on="k = id", within=("0 s", "1 s")), "has no within"),
        (lambda left, right: right.versions(), "has a key"),
        (lambda left, right: right.versions("idd"), "unknown column 'idd'"),
        (lambda left, right: right.versions("id", deleted="w"), "is string, not boolean"),
        (lambda left, right: right.versions("id", "ID"), "appears twice"),
        (lambda left, right: left.join(right.versions("w"), on="k = w"), "'k' is int, and 'w' is string"),
        (lambda left, right: right.group_by("id").agg(n=ps.count()).retracting().changes("n").versions("id"),
         "have no time from which they are valid"),
        (lambda left, right: ps.stream("x", schema="id int").versions("id"), "no event time or no watermark"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ps.DefinitionError, match=message):
        make(stream("l", LEFT, "at"), stream("r", RIGHT, "seen"))
