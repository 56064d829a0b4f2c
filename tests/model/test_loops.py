"""Loops without Spark: after every epoch they show what a computation from scratch gives, however rounds are cut."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError, PenstockError, RowError
from penstock.model.epochs import EpochProgress
from penstock.model.loops import Loop, iteration
from penstock.model.loops_values import key_bytes, key_of, packed, unpacked
from penstock.runtime.derived.loops.graphs import Graph
from penstock.runtime.derived.loops.local import LocalLoop, shown_after
from penstock.runtime.derived.loops.machine import LoopTally, machine_of
from penstock.testing import TestStream, iterate

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
EDGES = ps.stream("edges", schema="a bigint, b bigint, w int")
Edge = tuple[int, int, int]


class Smallest(Loop):
    """Components by key: each vertex knows its neighbours, and tells them of a smaller one."""

    output = "vertex bigint, component bigint"

    def enter(self, event):
        yield event.a, ("edge", event.b)
        yield event.b, ("edge", event.a)

    def step(self, key, state, messages, round):
        label, near = state or (key, frozenset())
        new = {value for what, value in messages if what == "edge"} - near
        near = near | new
        best = min([label, *(value for what, value in messages if what == "label")])
        told = near if best < label or state is None else new
        return (best, near), [(other, ("label", best)) for other in sorted(told)]

    def show(self, key, state):
        return {"vertex": key, "component": state[0]}


def components(edges: Iterable[Edge]) -> dict[int, int]:
    """From scratch, by union and find."""
    parent: dict[int, int] = {}

    def find(one: int) -> int:
        while parent.setdefault(one, one) != one:
            one = parent[one]
        return one

    for a, b, _ in edges:
        one, other = find(a), find(b)
        parent[max(one, other)] = min(one, other)
    return {vertex: find(vertex) for vertex in list(parent)}


def distances(edges: Iterable[Edge], sources: Iterable[int] = (0, 1)) -> dict[int, float]:
    """From scratch, by Dijkstra."""
    near: dict[int, list[tuple[int, int]]] = {}
    for a, b, weight in edges:
        near.setdefault(a, []).append((b, weight))
        near.setdefault(b, [])
    found: dict[int, float] = {}
    waiting = [(0.0, source) for source in sources if source in near]
    while waiting:
        far, vertex = heapq.heappop(waiting)
        if vertex not in found:
            found[vertex] = far
            for other, weight in near[vertex]:
                heapq.heappush(waiting, (far + weight, other))
    return found


BODIES: dict[str, tuple[Any, Any]] = {
    "components on columns": (ps.connected_components("a", "b"), components),
    "components by key": (Smallest, components),
    "shortest paths": (ps.shortest_paths("a", "b", sources=[0, 1], weight="w"), distances),
}
GRAPHS = st.integers(2, 25).flatmap(
    lambda n: st.lists(
        st.lists(st.tuples(st.integers(0, n), st.integers(0, n), st.integers(0, 9)), min_size=1, max_size=30),
        min_size=1,
        max_size=5,
    )
)


def frame(local: LocalLoop, number: int, edges: list[Edge]) -> pl.DataFrame:
    return local._frame([list(edge) for edge in edges], [(number, "edges", 0, place) for place in range(len(edges))])


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """So that vertices of small graphs have chunks too."""
    before, Graph.chunk = Graph.chunk, 3
    yield
    Graph.chunk = before


@pytest.mark.parametrize("of", BODIES)
@settings(max_examples=200 if DEEP else 10, deadline=None)
@given(epochs=GRAPHS)
def test_after_every_epoch_a_loop_shows_what_a_computation_from_scratch_gives(of: str, epochs: list[list[Edge]]):
    body, from_scratch = BODIES[of]
    local, shown, edges = LocalLoop(iteration(EDGES, body)), [], []
    for number, new in enumerate(epochs):
        edges += new
        rows, refused, _ = local.take(frame(local, number, new))
        shown = shown_after(shown, rows)
        assert not refused
        assert [tuple(row.values()) for row in shown] == sorted(from_scratch(edges).items())


@pytest.mark.parametrize("of", BODIES)
@settings(max_examples=100 if DEEP else 5, deadline=None)
@given(epochs=GRAPHS, parts=st.integers(1, 4))
def test_rounds_that_are_cut_into_parts_come_to_the_same(of: str, epochs: list[list[Edge]], parts: int):
    body, from_scratch = BODIES[of]
    loop = iteration(EDGES, body)
    local, edges, shown = LocalLoop(loop), [], []
    for number, new in enumerate(epochs):
        edges += new
        machine, half = machine_of(loop), len(new) // 2
        frames = [frame(local, number, new)[:half], frame(local, number, new)[half:]]
        inbox, count = machine.together([machine_of(loop).enter(some)[0] for some in frames]), 0
        while machine.size(inbox):
            asked = machine.unknown(inbox)
            machine.know(asked, local._fetch(asked))
            done = [machine_of(loop).work(part, count) for part in machine.parts(inbox, parts)]
            inbox, count = machine.put(done), count + 1
        other = machine_of(loop)
        other.load(machine.save())  # as a task does that shows what changed
        for key, value in other.memory().iter_rows():
            local.kept[key] = value
        shown = shown_after(shown, other.rows().to_dicts())
        assert [tuple(row.values()) for row in shown] == sorted(from_scratch(edges).items())


def test_an_epoch_costs_what_it_changes_and_not_what_the_graph_has():
    looked = []
    for size in (100, 1000):
        local = LocalLoop(iteration(EDGES, ps.connected_components("a", "b")))
        local.take(frame(local, 0, [(0, vertex, 1) for vertex in range(1, size)]))
        asked: list[int] = []
        fetch = local._fetch
        local._fetch = lambda keys, asked=asked, fetch=fetch: (asked.append(len(keys)), fetch(keys))[1]  # type: ignore[method-assign]
        rows, _, told = local.take(frame(local, 1, [(0, 5000, 1), (3, 4, 1), (6000, 6001, 1)]))
        assert len(rows) == 3
        looked.append((sum(asked), told.messages))
    assert looked[0] == looked[1]


class Bad(Loop):
    """Fails on 13; runs in circles on 66; cannot keep what 77 gives."""

    output = "key bigint, n bigint"
    max_rounds = 20

    def enter(self, event):
        if event.a == 99:
            raise ValueError("no way in")
        yield event.a, event.b

    def step(self, key, state, messages, round):
        if key == 13:
            raise ValueError("unlucky")
        again = [(key, 0)] if key == 66 else []
        return object() if key == 77 else (state or 0) + sum(messages), again

    def show(self, key, state):
        return key, state


def test_events_at_fault_become_dead_letters_and_all_others_count():
    app = App("bad")
    edges = app.stream("edges", ps.files("edges"), schema="a bigint, b bigint")
    loop = app.iterate("sums", edges, Bad)
    rows = [(1, 1), (13, 1), (2, 1), (66, 1), (77, 1), (1, 2), (99, 1)]
    found = iterate(loop, TestStream(edges).add(*rows).add((1, 1)))
    assert found.shown == [{"key": 1, "n": 4}, {"key": 2, "n": 1}]
    reasons = sorted(reason for _, reason in found.dead)
    assert reasons == [
        "the loop 'loop' (Bad) did not end within 20 rounds",
        "the loop Bad failed: ValueError: no way in",
        "the loop Bad, in round 0 of the key 13, failed: ValueError: unlucky",
        "the loop Bad, in round 0 of the key 77, failed: a value of the type object cannot be kept",
    ]


def test_code_that_always_fails_stops_the_stream():
    local = LocalLoop(iteration(EDGES, Bad))
    events = frame(local, 0, [(13, 1, 0)] * 200)
    with pytest.raises(PenstockError, match="fails on more than 100 events"):
        local.take(events)


def test_until_ends_a_loop_and_what_is_under_way_is_given_up():
    class Echo(Loop):
        output = "key bigint, n bigint"

        def enter(self, event):
            yield event.a, 1

        def step(self, key, state, messages, round):
            return (state or 0) + 1, [(key, 1)]

        def show(self, key, state):
            return key, state

    local = LocalLoop(iteration(EDGES, Echo, until=lambda round: round.number == 4))
    rows, refused, told = local.take(frame(local, 0, [(1, 1, 1)]))
    assert (rows, refused) == ([{"key": 1, "n": 5, "sign": 1}], [])
    assert told == LoopTally(rounds=5, messages=5, dropped=1)


def test_a_key_may_show_several_rows_and_a_state_may_be_forgotten():
    class Bag(Loop):
        output = "key bigint, n bigint"

        def enter(self, event):
            yield event.a, event.b

        def step(self, key, state, messages, round):
            left = sorted([*(state or []), *(m for m in messages if m)])
            return None if 0 in messages else left, []

        def show(self, key, state):
            return [(key, n) for n in state]

    local = LocalLoop(iteration(EDGES, Bag))
    assert [row["n"] for row in local.take(frame(local, 0, [(1, 5, 0), (1, 5, 0), (1, 7, 0)]))[0]] == [5, 5, 7]
    assert local.take(frame(local, 1, [(1, 7, 0)]))[0] == [{"key": 1, "n": 7, "sign": 1}]
    assert [row["sign"] for row in local.take(frame(local, 2, [(1, 0, 0)]))[0]] == [-1] * 4
    assert local.kept == {}


def test_edges_that_cannot_be_are_dead_letters():
    app = App("graph")
    edges = app.stream("edges", ps.files("edges"), schema="a string, b string, w double")
    paths = app.iterate("paths", edges, ps.shortest_paths("a", "b", sources="x", weight="w", both_ways=True))
    found = iterate(paths, TestStream(edges).add(("y", "x", 2.5), ("x", None, 1.0), ("x", "z", -1.0), ("x", "q", None)))
    assert found.shown == [{"vertex": "x", "distance": 0.0}, {"vertex": "y", "distance": 2.5}]
    assert sorted(reason for _, reason in found.dead) == [
        "an end of the edge is null",
        "the weight -1.0 is negative: ways would have no end",
        "the weight is not a number",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iteration(ps.stream("s", schema="a int, b int, g int", sign="g"), Smallest), "takes no retractions"),
        (lambda: iteration(EDGES, Smallest, max_rounds=0), "at least one round"),
        (lambda: iteration(EDGES, Smallest, until=3), "not a function"),
        (lambda: iteration(EDGES, dict), "not the body of a loop"),
        (lambda: iteration(EDGES, Loop), "has no method enter"),
        (lambda: iteration(EDGES.transform(lambda df: df), Smallest), "comes before a loop"),
        (lambda: iteration(EDGES.select("a", s="CAST(b AS string)"), ps.connected_components("a", "s")), "different"),
        (lambda: iteration(EDGES, ps.connected_components("a", "c")), "unknown column 'c'"),
        (lambda: iteration(EDGES, ps.shortest_paths("a", "b", sources="x")), "is not of type bigint"),
        (lambda: ps.shortest_paths("a", "b", sources=[]), "need a source"),
        (lambda: ps.stream("s", schema="n string", epoch="n"), "is string"),
        (lambda: ps.stream("s", schema="n int", epoch=ps.epochs("n", ends="n + 1")), "not a condition"),
    ],
)
def test_a_wrong_definition_is_refused(make, message):
    with pytest.raises(DefinitionError, match=message):
        make()


PLAIN = st.integers() | st.text() | st.booleans() | st.none() | st.binary()


@given(st.recursive(PLAIN, lambda part: st.lists(part) | st.dictionaries(st.text(), part)))
def test_plain_values_come_back_as_they_were(value):
    assert unpacked(packed(value)) == value


def test_keys_are_texts_numbers_and_tuples_of_them():
    for key in ("ä\x00", 2**70, ("a", 1), (1, "1")):
        assert key_of(key_bytes(key)) == key
    assert key_bytes(1) != key_bytes("1")
    for wrong in (1.5, True, None, ("a", None)):
        with pytest.raises(RowError, match="cannot be the key"):
            key_bytes(wrong)


def test_bytes_that_name_code_are_not_run():
    import pickle

    with pytest.raises(RowError, match="not a plain value"):
        unpacked(pickle.dumps(print))


@given(st.data())
def test_an_epoch_is_complete_once_and_when_all_partitions_have_passed_it(data):
    partitions = data.draw(st.integers(1, 3))
    rows = {of: sorted(data.draw(st.lists(st.integers(1, 6), max_size=8))) for of in range(partitions)}
    passed, told, left = EpochProgress(), [], {of: list(numbers) for of, numbers in rows.items()}
    while any(left.values()):
        of = data.draw(st.sampled_from([of for of, numbers in left.items() if numbers]))
        passed.row(of, left[of].pop(0))
        for number in passed.complete(range(partitions)):
            told.append(number)
            assert all(not [n for n in numbers if n <= number] for numbers in left.values()), "nothing of it comes"
            assert all(any(n > number for n in rows[other]) for other in rows)
        passed = EpochProgress.restore(passed.saved())
    assert told == sorted(set(told))
    least = min(max(numbers, default=0) for numbers in rows.values())
    assert told == sorted({n for numbers in rows.values() for n in numbers if n < least})
