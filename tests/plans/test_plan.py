"""Plans between all pairs of versions of an app: each difference once, in an order in which it can be done."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from penstock.plans.definition import Definition, Record, by_identity
from penstock.plans.of_app import definitions_of, recorded
from penstock.plans.plan import Cost, Facts, Plan, plan
from penstock.plans.text import summary, text_of
from tests.plans.apps import VERSIONS, app_of

KEPT = Facts(frozenset({"visits", "orders"}), frozenset({"visits", "orders"}))
PAIRS = list(product(VERSIONS, VERSIONS))


def definitions(name: str, root: Path) -> tuple[Definition, ...]:
    return tuple(definitions_of(app_of(name, root)))


def planned(before: str, after: str, root: Path, facts: Facts = KEPT) -> Plan:
    return plan("shop", definitions(before, root), definitions(after, root), facts)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_plan_makes_the_wanted_definitions_of_the_recorded_ones(before: str, after: str, tmp_path: Path) -> None:
    old, new = by_identity(definitions(before, tmp_path)), by_identity(definitions(after, tmp_path))
    made = planned(before, after, tmp_path)
    assert bool(made.changes) == (old != new)
    now, done = dict(old), set[str]()
    for change in made.changes:
        id = next(
            one.id for one in (*new.values(), *old.values()) if (one.kind, one.name) == (change.kind, change.name)
        )
        assert id not in done, "a definition changes once"
        done.add(id)
        if change.verb == "remove":
            gone = now.pop(id)
            assert not any(gone.id in one.reads for one in now.values()), "what is read by others is removed after them"
            continue
        if change.was is not None:
            before_it = f"{change.kind} {change.was}"
            del now[before_it]
            for sink in [one for one in now.values() if one.kind == "sink" and before_it in one.reads]:
                now[sink.id] = new.get(sink.id, sink)  # it follows its view
        now[id] = new[id]
        known = {*now, *(one.id for one in definitions(before, tmp_path))}
        assert set(new[id].reads) <= known, "what something reads is there before it"
        assert (change.verb == "add") == (id not in old and change.was is None)
    assert now == new
    assert json.loads(made.to_json())["changes"] == json.loads(json.dumps([vars_of(one) for one in made.changes]))
    assert summary(made) in text_of(made) or not made.changes


def vars_of(change: object) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(change)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", VERSIONS)
def test_what_is_recorded_reads_back_the_same(name: str, tmp_path: Path) -> None:
    record = recorded(app_of(name, tmp_path))
    assert Record.from_json(record.to_json()) == record


#: What the changes are, as (verb, kind, name, cost, way).
EXPECTED = {
    ("one view", "an added view"): [("add", "view", "by_user", "back-fill", "fill")],
    ("an added view", "one view"): [("remove", "view", "by_user", "state lost", "drop")],
    ("one view", "another window"): [("change", "view", "by_page", "replacement", "replace")],
    ("one view", "another input"): [("change", "view", "by_page", "replacement", "replace")],
    ("one view", "another trigger"): [("change", "view", "by_page", "nothing", "alter")],
    ("one view", "a renamed view"): [("rename", "view", "pages", "nothing", "rename")],
    ("one view", "a sink"): [("add", "sink", "out", "nothing", "begin")],
    ("a sink", "a renamed sink"): [("rename", "sink", "others", "nothing", "rename")],
    ("a sink", "a renamed view with a sink"): [("rename", "view", "pages", "nothing", "rename")],
    ("a renamed sink", "a renamed view with a sink"): [
        ("rename", "view", "pages", "nothing", "rename"),
        ("rename", "sink", "out", "nothing", "rename"),
    ],
    ("a sink", "another target"): [("change", "sink", "out", "nothing", "alter")],
    ("a sink", "one view"): [("remove", "sink", "out", "nothing", "drop")],
    ("one view", "a view over a view"): [("add", "view", "total", "nothing", "begin")],
    ("a view over a view", "a view over a changed view"): [
        ("change", "view", "by_page", "replacement", "replace"),
        ("change", "view", "total", "replacement", "rebuild"),
    ],
    ("one view", "an operator"): [
        ("add", "operator", "counts", "back-fill", "begin"),
        ("add", "view", "by_count", "nothing", "begin"),
    ],
    ("an operator", "an operator by another key"): [
        ("change", "operator", "counts", "replacement", "rebuild"),
        ("change", "view", "by_count", "replacement", "rebuild"),
    ],
    ("an operator", "one view"): [
        ("remove", "view", "by_count", "state lost", "drop"),
        ("remove", "operator", "counts", "state lost", "drop"),
    ],
    ("one view", "two streams"): [
        ("add", "stream", "orders", "nothing", "begin"),
        ("add", "view", "by_item", "nothing", "begin"),
    ],
    ("two streams", "one view"): [
        ("remove", "view", "by_item", "state lost", "drop"),
        ("remove", "stream", "orders", "state lost", "drop"),
    ],
    ("one view", "another column"): [
        ("change", "stream", "visits", "nothing", "alter"),
        ("change", "view", "by_page", "replacement", "replace"),
    ],
    ("one view", "another folder"): [("change", "stream", "visits", "state lost", "reread")],
    ("one view", "another watermark"): [
        ("change", "stream", "visits", "nothing", "alter"),
        ("change", "view", "by_page", "nothing", "alter"),
    ],
}


@pytest.mark.parametrize(("before", "after"), EXPECTED)
def test_each_kind_of_change_has_its_cost(before: str, after: str, tmp_path: Path) -> None:
    made = planned(before, after, tmp_path)
    found = [(one.verb, one.kind, one.name, one.cost.value, one.way) for one in made.changes]
    assert found == EXPECTED[before, after]


def test_without_a_history_another_definition_loses_the_state(tmp_path: Path) -> None:
    for before, after in (("one view", "another window"), ("an operator", "an operator by another key")):
        made = planned(before, after, tmp_path, Facts())
        assert {change.way for change in made.changes} == {"rebuild"}
        assert made.lossy == made.changes


def test_a_new_view_on_a_stream_without_history_begins_with_the_next_epoch(tmp_path: Path) -> None:
    (change,) = planned("one view", "an added view", tmp_path, Facts()).changes
    assert (change.cost, change.way) == (Cost.NOTHING, "begin")
    assert change.meaning.startswith("it begins with the next epoch: the history does not have")


def test_a_sink_does_not_get_rows_with_other_columns(tmp_path: Path) -> None:
    old = Definition("sink", "out", (("columns", "page, n"), ("to", "files")))
    new = Definition("sink", "out", (("columns", "page, m"), ("to", "files")))
    made = plan("shop", [old], [new], KEPT)
    assert [change.way for change in made.refused] == ["refuse"]
    moved = Definition("sink", "out", (("columns", "page, m"), ("to", "elsewhere")))
    assert not plan("shop", [old], [moved], KEPT).refused


def test_another_kind_of_source_is_read_from_its_beginning(tmp_path: Path) -> None:
    old = Definition("stream", "visits", (("source", "files('in')"),))
    new = Definition("stream", "visits", (("source", "kafka('visits')"),))
    (change,) = plan("shop", [old], [new], KEPT).changes
    assert (change.cost, change.way) == (Cost.STATE_LOST, "reread")


def test_of_a_store_of_an_earlier_version_only_other_state_is_a_change() -> None:
    old = [Definition("view", "a", (), "1"), Definition("view", "b", (), "1"), Definition("operator", "o")]
    part = (("window", "x"),)
    new = [
        Definition("view", "a", part, "1"),
        Definition("view", "b", part, "2"),
        Definition("operator", "o", part, "s"),
    ]
    assert [change.name for change in plan("shop", old, new, KEPT).changes] == ["b"]


def test_two_definitions_that_could_both_be_the_renamed_one_are_removed_and_added(tmp_path: Path) -> None:
    part = (("window", "x"),)
    old = [Definition("view", "a", part, "1"), Definition("view", "b", part, "1")]
    made = plan("shop", old, [Definition("view", "c", part, "1")], KEPT)
    assert [change.verb for change in made.changes] == ["add", "remove", "remove"]


def test_removals_can_be_left_out(tmp_path: Path) -> None:
    made = planned("two streams", "another window", tmp_path)
    assert {change.verb for change in made.changes} == {"change", "remove"}
    assert {change.verb for change in made.without_removals().changes} == {"change"}
