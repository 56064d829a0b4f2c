"""Groupings: even for shuffle, the same task for the same fields, every task for all, one task for global."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

import penstock as ps
from penstock.errors import RowError
from penstock.testing import TestStream, run_topology
from penstock.topology.groupings import key_of, task_of

STREAM = ps.stream("numbers", schema="n bigint, word string")


class Where(ps.BasicBolt):
    """Emits which task a tuple came to."""

    outputs = "component string, task bigint, n bigint, word string"

    def prepare(self, context, collector):
        self.context = context

    def execute(self, tup, collector):
        yield self.context.component, self.context.task, tup.n, tup.word


class Through(ps.BasicBolt):
    outputs = "n bigint, word string"

    def execute(self, tup, collector):
        return [tup.values]


def tasks(kind: str, *fields: str, epochs: int = 3, first: int = 3, second: int = 4) -> list[dict]:
    """The tasks that tuples come to, from a stream and from a bolt."""
    builder = ps.TopologyBuilder().spout("numbers", STREAM)
    builder.bolt("through", Through, first).shuffle("numbers")
    getattr(builder.bolt("from_stream", Where, second), kind)("numbers", *fields)
    getattr(builder.bolt("from_bolt", Where, second), kind)("through", *fields)
    script = TestStream(STREAM)
    for epoch in range(epochs):
        script = script.add(*((epoch * 24 + n, f"w{n % 7}") for n in range(24))).restart()
    found = run_topology(builder, script)
    return [row for rows in found.rows.values() for row in rows]


def by_component(rows: list[dict]) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        found[row["component"]][row["task"]] += 1
    return found


def test_shuffle_is_even():
    for counts in by_component(tasks("shuffle")).values():
        assert sum(counts.values()) == 72
        assert max(counts.values()) - min(counts.values()) <= 3, "one for each that emits"
        assert len(counts) == 4


def test_shuffle_is_even_also_over_epochs_of_one_tuple():
    builder = ps.TopologyBuilder().spout("numbers", STREAM)
    builder.bolt("where", Where, 4).shuffle("numbers")
    script = TestStream(STREAM)
    for n in range(12):
        script = script.add((n, "a"))
    counts = Counter(row["task"] for row in run_topology(builder, script).rows["where"])
    assert counts == {0: 3, 1: 3, 2: 3, 3: 3}


def test_the_same_fields_come_to_the_same_task_in_every_epoch_and_after_restarts():
    rows = tasks("fields", "word")
    for component in ("from_stream", "from_bolt"):
        places = {(row["word"], row["task"]) for row in rows if row["component"] == component}
        assert len(places) == 7
    assert {(r["word"], r["task"]) for r in rows} == {(f"w{n}", task_of(key_of((f"w{n}",)), 4)) for n in range(7)}


def test_all_comes_to_every_task_and_global_to_one():
    for counts in by_component(tasks("all")).values():
        assert counts == {0: 72, 1: 72, 2: 72, 3: 72}
    for counts in by_component(tasks("global_")).values():
        assert counts == {0: 72}


def test_local_tuples_stay_in_the_task_that_emitted_them():
    builder = ps.TopologyBuilder().spout("numbers", STREAM)
    builder.bolt("one", Where, 3).shuffle("numbers")
    builder.bolt("two", Again, 3).local_or_shuffle("one")
    builder.bolt("three", Again, 2).local_or_shuffle("one")
    script = TestStream(STREAM).add(*((n, "a") for n in range(12)))
    found = run_topology(builder, script)
    assert all(row["task"] == row["before"] for row in found.rows["two"])
    assert Counter(row["task"] for row in found.rows["three"]) == {0: 6, 1: 6}, "else it is a shuffle"
    topology = builder.build("t")
    assert topology.levels == {"numbers": 0, "one": 1, "two": 1, "three": 2}


class Again(ps.BasicBolt):
    outputs = "before bigint, task bigint"

    def prepare(self, context, collector):
        self.context = context

    def execute(self, tup, collector):
        yield tup.task, self.context.task


KEYS = [
    ("a",), ("a", "b"), ("a\x1fsb",), (1,), (1.0,), (True,), (None,), (b"a",), (0.0,), ("",), ("", ""), ((1, 2),),
    (date(2026, 1, 1),), (datetime(2026, 1, 1, tzinfo=UTC),), (Decimal("1.0"),), ("1",), (["a"],), (["a", "b"],),
]  # fmt: skip


def test_keys_are_told_apart_and_are_the_same_in_every_process():
    assert len({key_of(values) for values in KEYS}) == len(KEYS)
    assert key_of((0.0,)) == key_of((-0.0,))
    assert key_of((Decimal("1.0"),)) == key_of((Decimal("1"),))
    code = "from tests.topology.test_groupings import KEYS, key_of; print([key_of(one).hex() for one in KEYS])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str([key_of(one).hex() for one in KEYS])


def test_what_has_no_stable_bytes_is_refused():
    with pytest.raises(RowError, match="cannot be grouped by"):
        key_of((object(),))
