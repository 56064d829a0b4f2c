"""Questions to all of history: events as of a moment, views as they were, and facts that held once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock as ps
from penstock.control import Live
from penstock.errors import PenstockError
from penstock.sql import SqlError
from tests.runtime.test_audit import Feed, an_app


@pytest.fixture
def live(spark, tmp_path):
    feed, app = Feed(tmp_path / "events", 5), an_app(tmp_path / "events", "fixed", "session")
    feed.write(10)
    live = Live(app, tmp_path / "state", spark=spark, tick=3600.0).start()
    live.catch_up()
    yield live, feed
    live.stop()


def test_events_as_of_a_moment_and_views_as_they_were(live):
    app, feed = live
    last = app.store.last()
    before = sorted(app.store.query("SELECT k, n FROM fixed").rows())
    feed.write(20)
    app.catch_up()

    def ask(text: str) -> list[tuple[object, ...]]:
        return sorted(app.execute(text).rows)

    assert ask("SELECT count(*) FROM HISTORY(events)") == [(30,)]
    assert ask(f"SELECT count(*) FROM HISTORY(events) AS OF COMMIT {last.number}") == [(10,)]
    assert ask("SELECT count(*) FROM HISTORY(events) AS OF EPOCH 0") == [(10,)]
    assert ask("SELECT count(*) FROM HISTORY(events) AS OF TIMESTAMP '2020-01-01'") == [(0,)]
    assert ask(f"SELECT k, n FROM HISTORY(fixed) AS OF COMMIT {last.number}") == before
    then = f"HISTORY(fixed) AS OF COMMIT {last.number}"
    both = ask(f"SELECT sum(h.n), sum(f.n) FROM {then} h RIGHT JOIN fixed f USING (k, window_end)")
    assert both[0][0] < both[0][1]
    assert ask("WITH x AS (SELECT max(v) AS m FROM HISTORY(events) GROUP BY k) SELECT count(*) FROM x") == [(3,)]


def test_a_view_in_segments_is_asked_beside_history(live):
    app, _ = live
    question = "SELECT f.k, sum(f.n), max(f.window_end) FROM fixed f JOIN (SELECT DISTINCT k FROM HISTORY(events)) e"
    question += " USING (k) GROUP BY f.k"
    before = sorted(app.execute(question).rows)
    app.store.shard("fixed", 2)
    assert before
    assert sorted(app.execute(question).rows) == before


def test_a_fact_that_held_once(live):
    app, _ = live
    rows = app.execute(
        "SELECT max_by(v, at) FROM HISTORY(events) WHERE k = 'a' AND at < TIMESTAMP '2026-05-01 12:00:03'"
    ).rows
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM HISTORY(nothing)", "unknown stream or view 'nothing'"),
        ("SELECT * FROM HISTORY(fixed) AS OF EPOCH 1", "only streams have epochs"),
        ("SELECT * FROM HISTORY(events), elsewhere.t", "neither a view nor a history"),
        ("SELECT * FROM HISTORY(events) JOIN other", "unknown view 'other'"),
        ("SELECT reflect('java.lang.System', 'exit', 1) FROM HISTORY(events)", "is not supported here"),
        ("SELECT * FROM HISTORY(events) AS OF EPOCH 99", "has no epoch 99"),
        ("SELECT * FROM HISTORY(events) AS OF COMMIT 99999", "there is no commit 99999"),
        ("SELECT nothing FROM HISTORY(events)", "Spark cannot answer"),
    ],
)
def test_what_cannot_be_asked_is_refused(live, text, said):
    app, _ = live
    with pytest.raises((SqlError, PenstockError), match=said):
        app.execute(text)


def test_a_stream_that_is_not_kept_has_no_history(spark, tmp_path):
    feed, app = Feed(tmp_path / "events", 5), ps.App("small")
    feed.write(3)
    events = app.stream("events", ps.files(tmp_path / "events"), schema="k string", keep="none")
    app.view("n", events.group_by().agg(n=ps.count()))
    live = Live(app, tmp_path / "state", spark=spark).start()
    try:
        with pytest.raises(PenstockError, match="is not kept"):
            live.execute("SELECT * FROM HISTORY(events)")
    finally:
        live.stop()


def test_the_questions_of_the_page_are_understood():
    from penstock import sql
    from penstock.sql.history import history

    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    questions = "\n".join(re.findall(r"```sql\n(.*?)```", page, re.DOTALL))
    found = [history(statement, ["visits"], ["by_page"]) for statement in sql.parse(questions)]
    assert len(found) == 6
    assert [views for _, views in found] == [[], [], [], [], ["by_page"], []]
