"""Groups of streams: which share an engine, and that one does not wait for another. Without Spark."""

from __future__ import annotations

import threading

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.runtime.groups import partition
from penstock.runtime.spark.session import active_session
from penstock.runtime.tables.tables import Tables
from tests.runtime.parts import Parts, in_thread, stream

A, B, C = stream("a"), stream("b"), stream("c")


def counting(flow: ps.Flow) -> ps.View:
    return flow.group_by("k").agg(n=ps.count())


def groups(*views: ps.View, streams=(A, B, C), flows=()) -> list[tuple[str, ...]]:
    return partition({one.name: one for one in streams}, views, flows)


def test_streams_that_share_a_view_a_flow_or_a_join_are_a_group():
    assert groups(counting(A), counting(B)) == [("a",), ("b",), ("c",)]
    assert groups(counting(A.union(C))) == [("a", "c"), ("b",)]
    assert groups(counting(A.union(B)), counting(B.union(C))) == [("a", "b", "c")]
    assert groups(flows=[A.union(B)]) == [("a", "b"), ("c",)]


def test_views_over_views_and_derived_streams_are_in_the_group_of_what_they_read():
    app = ps.App("made")
    one = app.stream("one", A.log, schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second"))
    two = app.stream("two", A.log, schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second"))
    alone = app.stream("alone", A.log, schema="k string")
    app.join("both", one, two, on="k", within=("0 seconds", "1 minute"), prefix="right_")
    counts = app.view("counts", one.group_by("k").agg(n=ps.count()).retracting())
    app.view("above", counts.changes().group_by("n").agg(m=ps.count()))
    app.view("lonely", alone.group_by("k").agg(n=ps.count()))
    assert partition(app.streams, app.views.values(), ()) == [("one", "two", "both"), ("alone",)]


def test_while_one_group_runs_an_epoch_the_other_commits_epochs_and_ticks(tmp_path):
    parts = Parts(tmp_path, [A, B], {"of_a": counting(A), "of_b": counting(B)})
    try:
        runs, release, events = threading.Event(), threading.Event(), list[str]()

        def block(pool: str | None) -> None:
            runs.set()
            release.wait(60)
            events.append("the job of a ends")

        slow = in_thread(lambda: parts.epoch("a", 0, ("x", 1), on_job=block))
        assert runs.wait(60)
        for number in range(3):
            parts.epoch("b", number, ("y", number))
            events.append(f"epoch {number} of b is committed")
        parts.ticker.tick(parts.groups.of("b"))
        parts.definitions.add_view("more_of_b", counting(B))
        parts.epoch("b", 3, ("z", 1))
        events.append("a view of b is defined")
        release.set()
        slow.join()
        assert events[-1] == "the job of a ends"
        assert parts.store.query("SELECT k, n FROM of_a").rows() == [("x", 1)]
        assert parts.store.query("SELECT k, n FROM of_b ORDER BY k").rows() == [("y", 3), ("z", 1)]
        assert parts.store.query("SELECT k, n FROM more_of_b").rows() == [("z", 1)]
    finally:
        parts.close()


def test_jobs_of_an_epoch_run_in_the_pool_of_its_group(tmp_path):
    parts = Parts(tmp_path, [A, B], {"of_a": counting(A), "of_b": counting(B)})
    try:
        pools: list[str | None] = []
        parts.epoch("a", 0, ("x", 1), on_job=pools.append)
        parts.epoch("b", 0, ("x", 1), on_job=pools.append)
        assert pools == [parts.groups.of("a").pool, parts.groups.of("b").pool]
        assert pools[0] != pools[1]
        assert [parts.running(name).pool for name in "ab"] == pools
    finally:
        parts.close()


def test_a_view_over_two_groups_waits_for_both_and_makes_them_one(tmp_path):
    parts = Parts(tmp_path, [A, B, C], {"of_a": counting(A), "of_b": counting(B), "of_c": counting(C)})
    try:
        runs, release = threading.Event(), threading.Event()

        def block(pool: str | None) -> None:
            runs.set()
            release.wait(60)

        parts.epoch("b", 0, ("x", 1))
        slow = in_thread(lambda: parts.epoch("a", 0, ("x", 1), on_job=block))
        assert runs.wait(60)
        defining = in_thread(lambda: parts.definitions.add_view("both", counting(A.union(B))))
        parts.epoch("c", 0, ("x", 1))  # a third group waits for nobody
        assert "both" not in parts.store.views()
        release.set()
        slow.join()
        defining.join()
        assert parts.groups.of("a") is parts.groups.of("b")
        assert [group.name for group in parts.groups.all] == ["a, b", "c"]
        parts.epoch("a", 1, ("x", 2))
        parts.epoch("b", 1, ("x", 2), ("y", 2))
        assert parts.store.query("SELECT k, n FROM both ORDER BY k").rows() == [("x", 2), ("y", 1)]
        assert parts.store.query("SELECT k, n FROM of_a").rows() == [("x", 2)]
        assert parts.store.query("SELECT k, n FROM of_b ORDER BY k").rows() == [("x", 2), ("y", 1)]
    finally:
        parts.close()


def test_who_waits_for_a_group_that_is_absorbed_gets_the_turn_of_the_one_that_absorbs_it(tmp_path):
    parts = Parts(tmp_path, [A, B], {"of_a": counting(A), "of_b": counting(B)})
    try:
        old = parts.groups.of("b")
        with parts.groups.turn(["a", "b"]) as engine:
            waiting = in_thread(lambda: parts.epoch("b", 0, ("x", 1)))
        waiting.join()
        assert not old.is_live
        assert parts.groups.of("b").engine is engine
        assert parts.store.query("SELECT k, n FROM of_b").rows() == [("x", 1)]
    finally:
        parts.close()


def test_an_unknown_stream_has_no_group(tmp_path):
    parts = Parts(tmp_path, [A])
    try:
        with pytest.raises(ps.PenstockError, match="z"), parts.groups.turn(["z"]):
            pass
    finally:
        parts.close()


def test_groups_share_a_table_but_not_two_tables_of_one_name():
    def joined(source: ps.Stream, schema: str = "k string, tier string") -> ps.Flow:
        return source.join(ps.table("users", ps.files("users"), schema=schema, key="k"), on="k")

    tables = Tables(active_session, None, lambda: 0, None)
    tables.need("group of a", [joined(A)])
    tables.need("group of b", [joined(B)])
    with pytest.raises(DefinitionError, match="there are two tables 'users'"):
        tables.need("group of c", [joined(C, "k string, level int")])
    tables.need("group of a", [])
    tables.release("group of b")
    tables.need("group of c", [joined(C, "k string, level int")])
