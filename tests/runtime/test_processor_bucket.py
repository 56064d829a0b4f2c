"""The parts of a processor's keys against the reference: the same rows, refusals and cells, however epochs are cut.

The reference looks at every cell after every commit; a part only at those that its wheel says, and keeps cells as text.
So these find a timer that the wheel forgets, fires twice or too early, and state that is lost between two epochs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import ClassVar
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.model.cell import loaded
from penstock.model.commits import Commit, Event
from penstock.model.process import process_of
from penstock.model.process_reference import ProcessReference
from penstock.model.processing import Processing
from penstock.model.time import BEGINNING, SECOND, instant
from penstock.runtime.derived.processors.bucket import CHUNK, Arrived, Bucket, slot_of

DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
START = instant("2024-01-01")


class InMemory:
    """Cells in a dictionary, to run a part of the keys without Spark."""

    def __init__(self) -> None:
        self.cells: dict[str, str] = {}
        self.chunks: dict[str, str] = {}
        self._index: str | None = None

    def get(self, keys: Sequence[str]) -> list[str | None]:
        return [self.cells.get(key) for key in keys]

    def put(self, texts: Iterable[tuple[str, str | None]]) -> None:
        _put(self.cells, texts)

    def slots(self, slots: Sequence[str]) -> list[str | None]:
        return [self.chunks.get(slot) for slot in slots]

    def put_slots(self, texts: Iterable[tuple[str, str | None]]) -> None:
        _put(self.chunks, texts)

    def index(self) -> str | None:
        return self._index

    def put_index(self, text: str) -> None:
        self._index = text


def _put(held: dict[str, str], texts: Iterable[tuple[str, str | None]]) -> None:
    for name, text in texts:
        if text is None:
            held.pop(name, None)
        else:
            held[name] = text


stream = ps.stream(
    "s", schema="k string, op int, n int, at timestamp", event_time="at", watermark=ps.bounded("5 seconds", idle=None)
)


class Random(ps.Processor):
    """Does what its events say."""

    output = "k string, what string, n bigint"
    sides: ClassVar = {"side": "k string"}
    total = ps.value("bigint", default=0)
    brief = ps.value("bigint", default=0, ttl="20 seconds")
    many = ps.list_of("int", ttl="1 minute")
    counts = ps.map_of("int", "bigint")

    def on_event(self, key, event, time):
        self.total += event.n
        if event.op == 0:
            self.brief += 1
            yield key, "brief", self.brief
        elif event.op == 1:
            self.many.append(event.n)
            yield key, "many", len(self.many)
        elif event.op == 2:
            self.counts[event.n % 3] = self.counts.get(event.n % 3, 0) + 1
            yield key, "counts", sum(self.counts.values())
        elif event.op == 3:
            self.set_timer(time + timedelta(seconds=event.n * event.n), name="moves")
        elif event.op == 4:
            self.set_timer(time + timedelta(seconds=event.n))
        elif event.op == 5:
            self.set_timer(after=timedelta(seconds=event.n), clock="processing", name="clock")
        elif event.op == 6:
            self.emit_to("side", k=key)
            self.cancel_timer("moves")
        elif event.op == 7:
            self.many.clear()
            self.set_timer(after=timedelta(days=event.n))
            raise ValueError("refused")
        elif event.op == 8:
            self.clear()
        else:
            self.set_timer(after=timedelta(hours=event.n))

    def on_timer(self, key, timer):
        yield key, f"{timer.name} {timer.clock} {timer.at:%d %H:%M:%S}", self.total
        if self.total % 5 == 0:
            self.set_timer(after=timedelta(seconds=30), name="again")
            self.total += 1
        if self.total % 7 == 0:
            raise ValueError("timer")


PROCESS = process_of(stream, Random, "k", allow_late=2 * SECOND)

events = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]), st.integers(0, 9), st.integers(-5, 90), st.integers(-30, 400)
    ),
    max_size=6,
)  # fmt: skip
commits = st.lists(
    st.tuples(events, st.integers(0, 40), st.one_of(st.none(), st.integers(0, 4_000))), min_size=1, max_size=12
)
Made = list[tuple[Commit, int, int]]


def made(drawn: list) -> Made:
    """Commits with the watermarks before and after them, by the reference."""
    reference, found = ProcessReference(PROCESS), []
    now, offset = START, 0
    for rows, passed, mark in drawn:
        now += passed * SECOND
        given = []
        for k, op, n, at in rows:
            given.append(Event("s", {"k": k, "op": op, "n": n, "at": START + at * SECOND}, 0, offset))
            offset += 1
        commit = Commit(now, tuple(given), {} if mark is None else {"s": START + mark * SECOND})
        before = reference.intake.time.watermark
        reference.commit(commit)
        found.append((commit, before, reference.intake.time.watermark))
    return found


def run_reference(script: Made) -> tuple[Counter, Counter, dict]:
    reference, rows, refused = ProcessReference(PROCESS), [], Counter()
    for commit, _, _ in script:
        result = reference.commit(commit)
        rows += [one for _, one in result.given]
        refused.update((one.kind, one.event.offset, one.reason) for one in result.refused)
        refused.update(("timer", key[0], reason) for key, _, reason in result.failed)
    return Counter(rows), refused, {key[0]: held for key, held in reference.state() if held}


def run_parts(script: Made, cuts: list[int], parts: int) -> tuple[Counter, Counter, dict]:
    shape, stored = PROCESS.shape, [InMemory() for _ in range(parts)]
    rows, refused, at = Counter(), Counter(), 0
    for cut in [*cuts, len(script)]:
        for part, cells in enumerate(stored):
            bucket = Bucket(PROCESS, Processing(shape), cells)
            offsets = {}
            for commit, before, after in script[at : at + cut]:
                mine = []
                for event in commit.events:
                    key = shape.key_text((event.row["k"],))
                    if crc32(key.encode()) % parts == part:
                        row = shape.shown_event([event.row[name] for name in stream.schema.names])
                        mine.append(Arrived(key, row, event.row["at"]))
                        offsets[id(mine[-1])] = mine[-1], event.offset
                bucket.commit(mine, before, after, commit.now)
            bucket.flush()
            rows.update(bucket.outcome.rows)
            refused.update((kind, offsets[id(event)][1], reason) for kind, event, reason in bucket.outcome.refused)
            refused.update(("timer", shape.loaded_key(k)[0], reason) for k, _, reason in bucket.outcome.failed)
        at += cut
    state = {}
    for cells in stored:
        for key, text in cells.cells.items():
            cell, _ = loaded(text, shape.states)
            cell.prune(script[-1][0].now)
            held = {name: shape.states[name].shown(one) for name, one in cell.states.items()}
            if held:
                state[shape.loaded_key(key)[0]] = held
    return rows, refused, state


@given(commits, st.lists(st.integers(0, 4), max_size=6), st.integers(1, 3))
@settings(max_examples=2_000 if DEEP else 150, deadline=None)
def test_parts_of_the_keys_do_what_the_reference_does(drawn: list, cuts: list[int], parts: int):
    script = made(drawn)
    assert run_parts(script, cuts, parts) == run_reference(script)


class Alarm(ps.Processor):
    output = "k string"

    def on_event(self, key, event, time):
        self.set_timer(time + timedelta(seconds=event.n), name="alarm")

    def on_timer(self, key, timer):
        yield {"k": key}


def test_a_slot_of_many_keys_is_stored_in_chunks_and_a_timer_that_moves_later_stays_where_it_is():
    process = process_of(stream, Alarm, "k")
    cells = InMemory()

    def commit(keys: range, n: int, after: int) -> int:
        bucket = Bucket(process, Processing(process.shape), cells)
        event = process.shape.make_event
        rows = [Arrived(f'["{k}"]', event(str(k), 0, n, None), START) for k in keys]
        bucket.commit(rows, BEGINNING, after, START)
        bucket.flush()
        return len(bucket.outcome.rows)

    assert commit(range(CHUNK + 10), 100, START) == 0
    assert len(cells.chunks) == 2
    before = dict(cells.chunks)
    assert commit(range(5), 200, START) == 0
    assert cells.chunks == before
    assert commit(range(2 * CHUNK, 2 * CHUNK + 1), 100, START) == 0
    assert len(cells.chunks) == 2
    assert commit(range(0), 0, START + 100 * SECOND) == CHUNK + 10 - 5 + 1
    assert len(cells.cells) == 5
    assert commit(range(0), 0, START + 200 * SECOND) == 5
    assert cells.cells == cells.chunks == {}


def test_slots_are_wide_far_off():
    widths = [slot_of("event", START + far * SECOND, START).split(".")[0] for far in (1, 7_200, 10**6, 10**8)]
    assert widths == ["e10", "e600", "e21600", "e864000"]
    assert slot_of("processing", START, BEGINNING).startswith("p864000.")
