"""Tables on the reference and on the kernel: random tables and events, and definitions that are refused."""

from __future__ import annotations

import random

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.testing import TestStream, run

CLICKS = ps.stream(
    "clicks", schema="user int, page string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds")
)
SCHEMA = "id bigint, tier string, since timestamp, until timestamp"


def at(chance: random.Random) -> str:
    return f"12:00:{chance.randrange(60):02}"


def made_up(chance: random.Random, table: ps.Table) -> TestStream:
    script = TestStream(CLICKS)
    for _ in range(4):
        if chance.random() < 0.7:
            rows = {}
            for number in range(chance.randrange(6)):
                since = chance.choice([None, at(chance)])
                key = chance.choice([1, 2, 3, None])
                until = chance.choice([None, at(chance)])
                rows[(key, since if table.valid_from else None)] = (key, f"t{number}", since, until)
            script = script.table(table, *rows.values())
        if chance.random() < 0.2:
            script = script.restart()
        events = [(chance.choice([1, 2, 3, 4, None]), chance.choice("ab"), at(chance)) for _ in range(8)]
        script = script.add(*events)
    return script.watermark("13:00:00")


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("said", [{}, {"valid_from": "since"}, {"valid_from": "since", "valid_to": "until"}])
def test_the_kernel_joins_as_the_reference_does(how, said):
    table = ps.table("users", schema=SCHEMA, key="id", **said)
    flow = CLICKS.where("page = 'a'").join(table, on="user = id", how=how).where("coalesce(tier, 'x') <> 't0'")
    view = flow.select("at", "tier", key="coalesce(id, -1)").group_by("key", "tier").window(ps.fixed("20 seconds"))
    kept = view.agg(n=ps.count())
    for seed in range(12):
        script = made_up(random.Random(seed), table)
        expected, found = run(kept, script, engine="reference"), run(kept, script)
        assert (found.panes, found.table) == (expected.panes, expected.table), seed


def test_an_expression_that_fails_on_the_way_to_a_table_is_a_dead_letter():
    table = ps.table("users", schema="id bigint, tier string", key="id")
    view = CLICKS.join(table, on="10 div user = id").group_by("tier").agg(n=ps.count())
    script = TestStream(CLICKS).table(table, (5, "gold")).add((2, "a", "12:00:00"), (0, "b", "12:00:00"))
    for engine in ("reference", "kernel"):
        found = run(view, script, engine=engine)
        assert [row["user"] for row in found.dead] == [0]
        assert [(row["tier"], row["n"]) for row in found.table] == [("gold", 1)]


def test_a_view_of_a_view_is_joined_with_a_table():
    table = ps.table("users", schema="id bigint, tier string", key="id")
    by_user = CLICKS.group_by("user").window(ps.fixed("1 minute")).agg(clicks=ps.count()).trigger(ps.on_close())
    view = by_user.changes("by_user").join(table, on="user = id").group_by("tier").agg(clicks=ps.sum("clicks"))
    script = TestStream(CLICKS).table(table, (1, "gold"), (2, "free"), (3, "gold"))
    script = script.add((1, "a", "12:00:00"), (2, "b", "12:00:00"), (3, "b", "12:00:00"), (1, "b", "12:00:01"))
    script = script.watermark("13:00:00")
    for engine in ("reference", "kernel"):
        found = {row["tier"]: row["clicks"] for row in run(view, script, engine=engine).table}
        assert found == {"gold": 3, "free": 1}


def test_several_keys_and_names_that_both_have():
    table = ps.table("pages", schema="user int, page string, title string", key=("user", "page"))
    assert CLICKS.join(table).schema.names == ("user", "page", "at", "title")
    assert CLICKS.join(table, on="user AND page").schema.names == ("user", "page", "at", "title")
    prefixed = CLICKS.join(table, on="user AND upper(page) = page", prefix="p_")
    assert prefixed.schema.names == ("user", "page", "at", "p_page", "title")


def refused(message: str, make) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_definitions_that_make_no_sense_are_refused():
    table = ps.table("users", schema="id bigint, page string", key="id")
    refused("both have a column 'page'", lambda: CLICKS.join(table, on="user = id"))
    refused("'page' is string, and 'id'", lambda: CLICKS.join(table, on="page = id", prefix="u_"))
    refused("compares no key of the table", lambda: CLICKS.join(table, on="user > id", prefix="u_"))
    refused("way to join a table", lambda: CLICKS.join(table, on="user = id", prefix="u_", how="full"))
    refused("neither 'at start' nor", lambda: ps.table("t", schema="id int", key="id", reload="often"))
    refused("cannot be a key", lambda: ps.table("t", schema="id double", key="id"))
    refused("must be timestamp", lambda: ps.table("t", schema="id int", key="id", valid_from="id"))
    refused("two rows with id = 1", lambda: TestStream(CLICKS).table(table, (1, "a"), (1, "b")))
    untimed = ps.stream("untimed", schema="user int")
    versioned = ps.table("t", schema="id int, since timestamp", key="id", valid_from="since")
    refused("the stream has none", lambda: untimed.join(versioned, on="user = id"))
