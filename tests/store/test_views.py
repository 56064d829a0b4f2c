"""Views in the store: how they are read, what may change in their definition, and what becomes of open windows."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import polars as pl
import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.plan import Plan
from penstock.store import Commit, StoreError
from penstock.store.sqlite.connection import SqliteConnection as Connection
from tests import outbox
from tests.store.conftest import NOON, ONLY_SQLITE, SECOND, STREAM, VIEW, change, contents

FLOATS = ps.stream("s", schema="k string, v int, at timestamp, f double", event_time="at", watermark=ps.bounded("1 s"))


KEYS = STREAM.group_by("k").agg(n=ps.count())


def commit(store, *rows, before=NOON, after=NOON, name="v"):
    """Commits rows and a watermark; the panes that fired: kind, n, index."""
    made = change(store, name, *rows, before=before, after=after)
    last = store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
    store.commit(Commit(kind="tick", now=NOON, changes={name: made}, view_times={name: after}))
    panes = outbox.panes(store).filter(pl.col("id") > last).select("kind", "values", "index").iter_rows()
    return [(kind, json.loads(values)["n"], index) for kind, values, index in panes]


# reading


def test_bounds_are_text_in_utc_numbers_or_null(opened):
    views = {
        "fine": STREAM.group_by("k").window(ps.fixed("1500 milliseconds")).agg(n=ps.count()),
        "counted": STREAM.group_by("k").window(ps.count_window(2)).agg(n=ps.count()),
        "whole": STREAM.group_by().agg(n=ps.count()),
    }
    store = opened(**views)
    for name in views:
        commit(store, ("a", 1, 1), ("a", 1, -NOON // SECOND - 2), name=name, before=-(1 << 62), after=-(1 << 62))
    assert contents(store, "SELECT window_start, window_end FROM fine ORDER BY 1") == [
        ("1969-12-31 23:59:57", "1969-12-31 23:59:58.500000"),
        ("2024-05-01 12:00:00", "2024-05-01 12:00:01.500000"),
    ]
    assert contents(store, "SELECT * FROM counted") == [("a", 0, 2, 2, 1)]
    assert contents(store, "SELECT * FROM whole") == [(None, None, 2, 0)]


def test_null_nan_and_negative_zero_are_keys_like_any_other(opened):
    view = FLOATS.select(
        "k", "v", "at", f="CASE k WHEN 'nan' THEN double('NaN') WHEN 'minus' THEN -0.0D WHEN 'zero' THEN 0.0D END"
    )
    store = opened(v=view.group_by("f").window(ps.fixed("1 hour")).agg(n=ps.count(), top=ps.max("f")))
    for _ in range(2):
        commit(store, *((k, 1, 1) for k in ("nan", "minus", "zero", None)), before=0, after=0)
    rows = contents(store, "SELECT f, n, top FROM v ORDER BY f NULLS FIRST")
    assert [(f, n) for f, n, _ in rows[:2]] == [(None, 2), (0.0, 4)]
    assert math.isnan(rows[2][0])
    assert math.isnan(rows[2][2])
    assert rows[2][1] == 2
    assert contents(store, "SELECT n FROM v WHERE f = 'NaN'") == [(2,)]


def test_lists_are_json_and_come_back_as_state(opened):
    store = opened(v=STREAM.group_by().window(ps.fixed("10 seconds")).agg(n=ps.count(), tops=ps.top(2, "v", value="k")))
    commit(store, ("a", 1, 1), ("b'\"", 5, 1))
    commit(store, ("c", 3, 1))
    assert contents(store, "SELECT tops FROM v") == [('["b\'\\"","c"]',)]


@ONLY_SQLITE
def test_an_index_by_what_people_read_is_used(opened):
    store = opened(v=VIEW)
    store.index("v", "window_end", "k")
    store.index("v", "window_end", "k")
    plan = contents(store, "EXPLAIN QUERY PLAN SELECT * FROM v WHERE window_end = '2024-05-01 12:00:10'")
    assert "USING INDEX __by_v_window_end_k" in str(plan)
    with pytest.raises(DefinitionError, match="unknown column of 'v' 'nn'"):
        store.index("v", "nn")
    commit(store, ("a", 1, 1))
    store.prepare({"v": Plan(VIEW.retracting())})
    assert contents(store, "SELECT n FROM v WHERE window_end = '2024-05-01 12:00:10'") == [(1,)]
    assert len(contents(store, "SELECT 1 FROM sqlite_schema WHERE name = '__by_v_window_end_k'")) == 1


@ONLY_SQLITE
def test_what_a_commit_asks_for_is_found_by_order_or_index_and_not_by_a_scan(opened, monkeypatch):
    sessions = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count()).retracting()
    counted = STREAM.group_by("k").window(ps.count_window(2)).agg(n=ps.count())
    store = opened(v=VIEW, sessions=sessions, counted=counted, forgetful=KEYS.retain("1 minute"))
    asked: list[str] = []
    rows, rows_of = Connection.rows, Connection.rows_of
    with monkeypatch.context() as patched:
        patched.setattr(Connection, "rows", lambda self, sql, *given: asked.append(sql) or rows(self, sql, *given))
        patched.setattr(Connection, "rows_of", lambda self, sql, of: asked.append(sql) or rows_of(self, sql, of))
        for name in ("v", "sessions", "counted", "forgetful"):
            change(store, name, ("a", 1, 1), before=NOON, after=NOON + 10 * SECOND)
    assert len(asked) == 10  # at, due; of, ghosts, due; seen, at, due; at, due
    for sql in asked:
        plan = store.query(f"EXPLAIN QUERY PLAN {sql}", ["?"] * sql.count("?"))["detail"].to_list()
        steps = [step for step in plan if not step.startswith(("COMPOUND", "LEFT-MOST", "UNION ALL"))]
        assert all(step.startswith("SEARCH") for step in steps), plan


@ONLY_SQLITE
def test_a_process_can_hold_thousands_of_small_answers(opened):
    columns = {f"n{number}": ps.count(where=f"v > {number}") for number in range(20)}
    store = opened(v=STREAM.group_by("k").window(ps.fixed("10 seconds")).agg(**columns))
    commit(store, ("a", 1, 1), ("b", 2, 1))
    state = store.state("v")
    windows = state.open_rows(10).select("k", "__start", "__end")
    assert windows.height == 2
    answers = [state.at(windows) for _ in range(2_000)]
    assert {answer.height for answer in answers} == {2}


# definitions


def test_another_definition_is_refused_with_both_and_the_way_out(opened):
    store = opened(v=VIEW)
    store.close()
    other = STREAM.group_by("k").window(ps.fixed("20 seconds")).agg(n=ps.count(), total=ps.sum("v"))
    with pytest.raises(StoreError) as error:
        opened(v=other)
    for text in ("'v' has another definition", repr(VIEW), repr(other), "store.drop('v')"):
        assert text in str(error.value)


def test_a_dropped_view_leaves_nothing_and_can_come_again(opened):
    view = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count()).retracting()
    store = opened(v=view, w=VIEW)
    commit(store, ("a", 1, 1))
    store.drop("v")
    assert store.views() == {"w": repr(VIEW)}
    assert [table for table in store._writer.tables() if table.endswith("_v")] == []
    with pytest.raises(StoreError, match=r"has no view 'v'\n  detail: there are: w"):
        store.drop("v")
    store.prepare({"v": Plan(VIEW)})
    assert contents(store) == []


@pytest.mark.parametrize("name", ["__x", "sqlite_x", 'x"; DROP TABLE __meta; --', "a b", ""])
def test_a_name_that_sql_cannot_have_is_refused(opened, name):
    store = opened()
    with pytest.raises(StoreError, match="cannot be the name of a view"):
        store.prepare({name: Plan(VIEW)})
    assert store.views() == {}


def test_names_that_are_words_of_sql_or_differ_in_case_only(opened):
    view = STREAM.group_by(select="k", order="v").window(ps.fixed("10 seconds")).agg(group=ps.count(), é=ps.sum("v"))
    store = opened(table=view)
    store.commit(Commit(kind="tick", now=NOON, changes={"table": change(store, "table", ("a", 1, 1), before=0)}))
    assert contents(store, 'SELECT "select", "order", "group", é FROM "table"') == [("a", 1, 1, 1)]
    with pytest.raises(StoreError, match="differ in case only"):
        store.prepare({"Table": Plan(view)})


def test_a_failed_prepare_changes_nothing(opened):
    store = opened(v=VIEW)
    with pytest.raises(StoreError):
        store.prepare({"w": Plan(VIEW), "sqlite_w": Plan(VIEW)})
    assert list(store.views()) == ["v"]
    with pytest.raises(StoreError, match="'w' is not prepared"):
        store.state("w")


# another trigger, another accumulation

LATE = VIEW.allow_late("1 hour")


def test_open_windows_keep_values_and_index_under_another_trigger(opened):
    early = VIEW.trigger(ps.on_time(early=ps.each()))
    store = opened(v=early)
    assert commit(store, ("a", 1, 1), ("a", 1, 1)) == [("insert", 2, 0)]
    store.close()
    store = opened(v=VIEW.trigger(ps.on_time(early=ps.repeatedly(ps.after_count(2)))))
    assert "after_count(2)" in store.views()["v"]
    assert commit(store, ("a", 1, 2)) == []
    assert commit(store, ("a", 1, 2)) == [("insert", 4, 1)]
    assert commit(store, after=NOON + 10 * SECOND) == [("insert", 4, 2)]


def test_elements_that_no_pane_has_shown_count_for_the_new_trigger(opened):
    store = opened(v=VIEW)
    assert commit(store, ("a", 1, 1), ("a", 1, 1)) == []
    store.prepare({"v": Plan(VIEW.trigger(ps.on_time(early=ps.repeatedly(ps.after_count(2)))))})
    assert commit(store) == [("insert", 2, 0)]


def test_windows_past_the_watermark_do_not_fire_on_time_again(opened):
    store = opened(v=LATE)
    commit(store, ("a", 1, 1))
    assert commit(store, after=NOON + 10 * SECOND) == [("insert", 1, 0)]
    store.prepare({"v": Plan(LATE.trigger(ps.on_time(late=ps.repeatedly(ps.after_count(2)))))})
    at = NOON + 10 * SECOND
    assert commit(store, ("a", 1, 2), before=at, after=at) == []
    assert commit(store, ("a", 1, 3), before=at, after=at) == [("insert", 3, 1)]


def test_from_accumulating_to_retracting_nothing_is_taken_back_that_was_not_recorded(opened):
    each = VIEW.trigger(ps.each())
    store = opened(v=each)
    assert commit(store, ("a", 1, 1)) == [("insert", 1, 0)]
    store.prepare({"v": Plan(each.retracting())})
    assert commit(store, ("a", 1, 1)) == [("insert", 2, 1)]
    assert commit(store, ("a", 1, 1)) == [("retract", 2, 1), ("insert", 3, 2)]
    store.prepare({"v": Plan(VIEW.trigger(ps.repeatedly(ps.after_count(1))).retracting())})
    assert commit(store, ("a", 1, 1)) == [("retract", 3, 2), ("insert", 4, 3)]


def test_from_accumulating_to_discarding_the_next_pane_shows_everything(opened):
    each = VIEW.trigger(ps.each())
    store = opened(v=each)
    commit(store, ("a", 1, 1))
    store.prepare({"v": Plan(each.discarding())})
    assert commit(store, ("a", 1, 1)) == [("insert", 2, 1)]
    assert commit(store, ("a", 1, 1)) == [("insert", 1, 2)]
    store.prepare({"v": Plan(VIEW.trigger(ps.repeatedly(ps.after_count(2))).discarding())})
    assert commit(store, ("a", 1, 1)) == []
    assert commit(store, ("a", 1, 1)) == [("insert", 2, 3)]
    store.prepare({"v": Plan(each.accumulating())})
    assert commit(store, ("a", 1, 1)) == [("insert", 6, 4)]


def test_final_rows_ghosts_and_counts_survive_a_migration(opened):
    sessions = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count()).trigger(ps.each())
    counted = STREAM.group_by("k").window(ps.count_window(2)).agg(n=ps.count())
    store = opened(v=sessions.retracting(), w=counted)
    commit(store, ("a", 1, 1), ("a", 1, 8))
    commit(store, ("a", 1, 20), before=NOON, after=NOON + 20 * SECOND)
    commit(store, *[("a", 1, 1)] * 3, name="w")
    before = [contents(store), contents(store, "SELECT * FROM w ORDER BY 2")]
    store.prepare({"v": Plan(replace(sessions, firing=ps.on_time()).retracting()), "w": Plan(counted.retracting())})
    assert [contents(store), contents(store, "SELECT * FROM w ORDER BY 2")] == before
    commit(store, ("a", 1, 1), name="w")
    assert contents(store, "SELECT window_start, n, final FROM w ORDER BY 1") == [(0, 2, 1), (2, 2, 1)]


def test_lateness_may_change_without_a_migration(opened):
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1))
    store.prepare({"v": Plan(LATE)})
    assert commit(store, after=NOON + 10 * SECOND) == [("insert", 1, 0)]
    assert contents(store, "SELECT final FROM v") == [(0,)]


def test_a_view_without_windows_that_gets_a_retention_counts_its_keys_as_touched_now(opened):
    store = opened(v=KEYS)
    commit(store, ("a", 1, 0), ("b", 1, 0), after=NOON + 3600 * SECOND)
    store.prepare({"v": Plan(KEYS.retain("1 minute"))})
    assert commit(store, ("b", 1, 3610), before=NOON + 3600 * SECOND, after=NOON + 3660 * SECOND) == [("insert", 2, 1)]
    assert contents(store, "SELECT k, n FROM v ORDER BY k") == [("a", 1), ("b", 2)]
    commit(store, before=NOON + 3660 * SECOND, after=NOON + 3661 * SECOND)
    assert contents(store, "SELECT k, n FROM v") == [("b", 2)]
    assert contents(store, "SELECT value FROM __meta WHERE name = 'retained:v'") == [(1,)]


def test_keys_without_a_watermark_count_as_touched_by_the_clock(opened):
    store = opened(v=KEYS)
    commit(store, ("a", 1, 0), before=-(1 << 62), after=-(1 << 62))
    store.prepare({"v": Plan(KEYS.retain("1 minute"))})
    commit(store, before=-(1 << 62), after=NOON + 60 * SECOND)
    assert contents(store, "SELECT k FROM v") == [("a",)]
    commit(store, before=NOON + 60 * SECOND, after=NOON + 61 * SECOND)
    assert contents(store, "SELECT k FROM v") == []


def test_a_retention_may_go_again_also_with_another_trigger(opened):
    store = opened(v=KEYS.retain("1 minute"))
    commit(store, ("a", 1, 0))
    store.prepare({"v": Plan(KEYS.retracting())})
    assert commit(store, ("a", 1, 1), after=NOON + 3600 * SECOND) == [("insert", 2, 1)]
    assert contents(store, "SELECT k, n FROM v") == [("a", 2)]
    store.prepare({"v": Plan(KEYS.retain("1 hour"))})
    commit(store, before=NOON + 3600 * SECOND, after=NOON + 7201 * SECOND)
    assert contents(store, "SELECT k FROM v") == []


def test_a_key_that_a_shorter_retention_makes_old_begins_anew(opened):
    store = opened(v=KEYS.retain("1 hour"))
    commit(store, ("a", 1, 0), ("b", 1, 0), after=NOON + 600 * SECOND)
    store.prepare({"v": Plan(KEYS.retain("1 minute"))})
    assert commit(store, ("a", 1, 600), before=NOON + 600 * SECOND, after=NOON + 600 * SECOND) == [("insert", 1, 0)]
    assert contents(store, "SELECT k, n FROM v") == [("a", 1)]


def test_a_closed_window_is_never_overwritten(opened):
    """Who lets lateness grow must keep closed windows closed; the store holds on to what was final."""
    store = opened(v=VIEW)
    commit(store, ("a", 1, 1), ("a", 1, 1), after=NOON + 10 * SECOND)
    store.prepare({"v": Plan(LATE)})
    for after in (NOON + 10 * SECOND, NOON + 7200 * SECOND):
        with pytest.raises(StoreError, match="is final"):
            commit(store, ("a", 1, 1), before=NOON + 10 * SECOND, after=after)
    assert contents(store, "SELECT n, final FROM v") == [(2, 1)]
