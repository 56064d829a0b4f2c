"""A producer that sends twice, again from the start, in another order, and what is not an event at all; and poison.

Each event counts once, by its id; what cannot be read, and what user code fails on, is a dead letter with its reason.
"""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql import functions as F

import penstock as ps
from penstock.app import App
from penstock.store import Reader
from tests.faults.app import on_files
from tests.faults.support import Rig

pytestmark = pytest.mark.xdist_group("kafka")

BAD = 5  # the id of the event that user code fails on
BROKEN = ["no json at all", '{"id": 1, "k": "a", "v": "many", "at": "2024-05-01T12:00:00Z"}', '{"id": 2, "k":']


def test_duplicates_replays_other_orders_and_broken_messages(spark, tmp_path):
    chance = random.Random(3)
    with Rig(spark, tmp_path) as rig:
        rig.start()
        for _ in range(3):
            rig.write(100)
        first = list(rig.produced)
        rig.send([first[n // 3] for n in range(90)], BROKEN[:1])  # each event three times, side by side
        rig.current()
        rig.send(first)  # everything again, from the start
        rig.stop()
        shuffled = list(first)
        chance.shuffle(shuffled)
        rig.send(shuffled, BROKEN[1:])  # and once more in another order, after a restart
        new = rig.rows[rig.sent : rig.sent + 100]
        rig.sent += 100
        rig.send(list(reversed(new)))
        rig.start()
        rig.current()
        rig.audit()
        reader = Reader(rig.state)
        dead = reader.query("SELECT reason, row FROM __refused WHERE kind = 'dead'").rows()
        reader.close()
    assert {reason for reason, _ in dead} == {"the row does not fit the stream's schema"}
    assert len(dead) == len(BROKEN)
    assert "no json at all" in [row for _, row in dead]


class Poisoned(Rig):
    """The app with a view behind user code, which raises on some events."""

    def app(self) -> App:
        @F.udf("bigint")
        def strict(id, v):
            if id == BAD:
                raise ValueError(f"{v} brings bad luck")
            return v * 2

        app, events = on_files(self.root)
        doubled = events.transform(lambda df: df.withColumn("doubled", strict("id", "v")))
        app.view("doubled", doubled.group_by("k").agg(n=ps.count(), s=ps.sum("doubled")))
        return app


def test_a_message_that_makes_user_code_raise_is_a_dead_letter_and_the_stream_goes_on(spark, tmp_path):
    with Poisoned(spark, tmp_path) as rig:
        rig.start()
        for _ in range(2):
            rig.write(20)
        rig.current()
        rig.poison = 1
        rig.audit()
        once = {row["id"]: row for row in rig.produced}.values()
        reader = Reader(rig.state)
        dead = reader.query("SELECT view, reason, row FROM __refused WHERE kind = 'dead'").rows()
        found = reader.query("SELECT k, n, s FROM doubled").rows()
        reader.close()
    (bad,) = (row["v"] for row in once if row["id"] == BAD)
    assert [(view, reason, json.loads(row)["id"]) for view, reason, row in dead] == [
        ("doubled", f"ValueError: {bad} brings bad luck", BAD)
    ]
    expected: dict[str, list[int]] = {}
    for row in once:
        if row["id"] != BAD:
            expected.setdefault(row["k"], []).append(row["v"] * 2)
    assert sorted(found) == sorted((k, len(values), sum(values)) for k, values in expected.items())
