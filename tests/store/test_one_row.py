"""A view without keys over all time has its one row in the store from the start, and after all rows were taken back."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.kernel.plan import Plan
from penstock.store import SqliteStore
from penstock.testing import TestStream
from tests.outbox import panes
from tests.sinks.support import Fed
from tests.store.engine import NAME

STREAM = ps.stream("s", schema="k string, v int, sign int", sign="sign")
TOTAL = STREAM.group_by().agg(n=ps.count(), v=ps.sum("v"), several=ps.collect_list("v")).retracting()


def test_the_row_is_there_before_the_first_event_and_no_pane_is(tmp_path: Path):
    script = TestStream(STREAM).clock("+1 hour").add(("a", 7, 1)).add(("a", 7, -1))
    fed = Fed(TOTAL, tmp_path, script)
    assert fed.store.query(f"SELECT n, v, several, final FROM {NAME}").rows() == [(0, None, "[]", 0)]
    fed.step()
    assert panes(fed.store).height == 0
    fed.step()
    assert fed.store.query(f"SELECT n, v, several FROM {NAME}").rows() == [(1, 7, "[7]")]
    fed.engine = fed.engine.restart()
    fed.step()
    assert fed.store.query(f"SELECT n, v, several FROM {NAME}").rows() == [(0, None, "[]")]
    assert panes(fed.store)["kind"].to_list() == ["insert", "retract"]
    fed.store.close()


def test_a_store_from_before_gets_the_row_when_it_is_opened(tmp_path: Path):
    view = STREAM.group_by().agg(n=ps.count())
    for _ in range(2):
        store = SqliteStore.open(tmp_path)
        store.lock()
        store.prepare({"total": Plan(view)})
        assert store.query("SELECT n FROM total").rows() == [(0,)]
        with store._transaction() as connection:
            connection.run('DELETE FROM "__view_total"')
        store.close()
