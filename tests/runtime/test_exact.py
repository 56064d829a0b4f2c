"""Cheap live and exact in batch, on Spark; and batch runs that decide as live did."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import penstock as ps
from penstock.history.batch.audit import Audit
from penstock.history.batch.runs import batch, replace, rollback
from penstock.model.time import instant, show_instant
from penstock.model.windows import Window
from penstock.runtime.errors import RunError
from penstock.runtime.run import Run
from tests.outbox import panes
from tests.runtime.test_audit import put, running

BEGIN = instant("2026-05-01T12:00:00Z")
#: So small a sketch is almost never right.
PEOPLE = ps.approx_distinct("user", lg_k=6).in_batch(ps.count_distinct("user"))
WINDOWS: dict[str, Window] = {
    "fixed": ps.fixed("10 seconds"),
    "sliding": ps.sliding("20 seconds", every="10 seconds"),
    "session": ps.session("3 seconds"),
    "counted": ps.count_window(100),
    "total": ps.global_window(),
}


class Feed:
    """Files of events: each from second `start` to `end`, some of them late."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.folder, self.chance, self.number = folder, random.Random(seed), 0

    def write(self, start: float, end: float, count: int = 300, late: float = 0.0) -> None:
        lines = []
        for number in range(count):
            second = start + (end - start) * number / count
            second -= late * 40 * self.chance.random() if self.chance.random() < late else 0
            at = show_instant(BEGIN + int(second * 1_000_000))
            lines.append(json.dumps({"page": self.chance.choice("ab"), "user": self.chance.randrange(5000), "at": at}))
        self.number += 1
        put(self.folder, self.number, lines)


def an_app(folder: Path, *views: str) -> ps.App:
    app = ps.App("visited")
    visits = app.stream(
        "visits", ps.files(folder), schema="page string, user int, at timestamp", event_time="at",
        watermark=ps.bounded("2 seconds", idle=None),
    )  # fmt: skip
    for name in views:
        app.view(name, visits.group_by("page").window(WINDOWS[name]).agg(people=PEOPLE, n=ps.count()))
    return app


def rows(run: Run, view: str) -> dict[tuple[object, ...], tuple[int, bool, int]]:
    found = run.store.query(f"SELECT page, window_start, window_end, people, people_exact, n FROM {view}").rows()
    return {tuple(place): (people, bool(exact), n) for *place, people, exact, n in found}


def truth(folder: Path) -> dict[tuple[str, str], int]:
    """The different users of each page and ten seconds, of all events."""
    found: dict[tuple[str, str], set[int]] = {}
    for path in folder.glob("*.json"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            at = instant(event["at"])
            start = show_instant(at - (at - BEGIN) % 10_000_000)
            found.setdefault((event["page"], start), set()).add(event["user"])
    return {place: len(users) for place, users in found.items()}


def check(run: Run, app: ps.App, *views: str) -> None:
    """The audit finds nothing."""
    for view in views:
        found = Audit(run.spark, run.store, app.streams, app.views, run.history).run(view)
        assert (found.unable, found.problems, found.shown, found.differences) == (None, [], [], 0), view
        assert found.rows > 0


def is_near(people: int, true: int) -> bool:
    return abs(people - true) <= 3 * 1.04 / 8 * true + 1


def test_a_row_is_exact_from_a_batch_run_until_a_later_event_touches_it(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 1), an_app(tmp_path / "visits", "fixed")
    feed.write(0, 35, count=2000)
    with running(app, tmp_path / "state", spark) as run:

        def compared() -> tuple[set[str], int]:
            """The windows of which a row is not exact; and how many rows are not what is true."""
            true, rough, wrong = truth(tmp_path / "visits"), set(), 0
            for (page, start, _), (people, exact, _) in rows(run, "fixed").items():
                expected = true[str(page), show_instant(instant(f"{start}Z"))]
                assert people == expected if exact else is_near(people, expected)
                rough |= set() if exact else {str(start)[-8:]}
                wrong += people != expected
            return rough, wrong

        rough, wrong = compared()
        assert rough == {"12:00:00", "12:00:10", "12:00:20", "12:00:30"}
        assert wrong > 0
        list(batch(run))
        assert compared() == (set(), 0)
        check(run, app, "fixed")
        feed.write(36, 45, count=500)
        run.catch_up()
        assert compared()[0] == {"12:00:30", "12:00:40"}
        check(run, app, "fixed")
        list(batch(run))
        assert compared() == (set(), 0)
        corrections = panes(run.store).filter(view="fixed")["values"].to_list()
        assert any(json.loads(text)["people_exact"] for text in corrections)
    with running(app, tmp_path / "state", spark) as run:
        assert all(exact for _, exact, _ in rows(run, "fixed").values())
        check(run, app, "fixed")


def test_any_window_is_exact_after_a_batch_run_and_the_audit_knows_which_stay_so(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 2), an_app(tmp_path / "visits", *WINDOWS)
    feed.write(0, 20, late=0.2)
    with running(app, tmp_path / "state", spark) as run:
        feed.write(30, 50, late=0.2)
        run.catch_up()
        check(run, app, *WINDOWS)
        list(batch(run))
        for view in WINDOWS:
            assert all(exact for _, exact, _ in rows(run, view).values()), view
        check(run, app, *WINDOWS)
        feed.write(50, 70, late=0.3)
        run.catch_up()
        for view in WINDOWS:
            kinds = {exact for _, exact, _ in rows(run, view).values()}
            assert kinds == ({False} if view == "total" else {True, False}), view
        check(run, app, *WINDOWS)


@pytest.mark.deep
def test_a_batch_run_that_decides_as_live_did_changes_nothing(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 3), an_app(tmp_path / "visits", *WINDOWS)
    feed.write(0, 20, late=0.3)
    with running(app, tmp_path / "state", spark) as run:
        for start in (20, 40):
            feed.write(start, start + 20, late=0.3)
            run.catch_up()
        assert run.store.counters()["visits.late"] > 0
        live = {view: rows(run, view) for view in WINDOWS}
        outcomes = list(batch(run, late="as-live"))
        assert {one.kind for one in outcomes} == {"as-live"}
        assert {view: rows(run, view) for view in WINDOWS} == live
        check(run, app, *WINDOWS)
        list(batch(run, ["fixed"]))  # all of it: there was no batch run before
        counted = sum(n for *_, n in rows(run, "fixed").values())
        assert counted == 900 > sum(n for *_, n in live["fixed"].values())
        feed.write(60, 80, late=0.3)
        run.catch_up()
        live = {view: rows(run, view) for view in WINDOWS}
        list(batch(run, late="as-live"))
        assert {view: rows(run, view) for view in WINDOWS} == live
        check(run, app, *WINDOWS)
        list(batch(run, ["fixed"]))  # only what was touched since the first
        assert sum(n for *_, n in rows(run, "fixed").values()) == 1200
        assert all(exact for _, exact, _ in rows(run, "fixed").values())
        check(run, app, *WINDOWS)


def test_as_live_repairs_rows_and_refuses_what_it_cannot_tell(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 4), an_app(tmp_path / "visits", "fixed")
    feed.write(0, 20, late=0.3)
    with running(app, tmp_path / "state", spark) as run:
        feed.write(20, 40, late=0.3)
        run.catch_up()
        right = rows(run, "fixed")
        with run.store._transaction() as connection:
            connection.run("UPDATE __view_fixed SET n = n + 1, people = 0 WHERE __end % 20000000 = 0")
        assert rows(run, "fixed") != right
        list(batch(run, ["fixed"], late="as-live"))
        assert rows(run, "fixed") == right
        with pytest.raises(ps.PenstockError, match="way to treat late events"):
            list(batch(run, late="never"))  # type: ignore[arg-type]


def test_replaced_and_rolled_back_views_are_exact_too(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 5), an_app(tmp_path / "visits", "fixed")
    feed.write(0, 20)
    plain = app.streams["visits"].group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count())
    with running(app, tmp_path / "state", spark) as run:
        replace(run, "fixed", plain)
        rollback(run, "fixed")
        assert all(exact for _, exact, _ in rows(run, "fixed").values())
        check(run, app, "fixed")


def test_other_pairs_and_rows_that_spark_makes_are_audited_too(spark, tmp_path):
    feed, app = Feed(tmp_path / "visits", 7), an_app(tmp_path / "visits")
    visits = app.streams["visits"]
    median = ps.monoid(
        "median", "user", lift=lambda n: [float(n)], merge=lambda a, b: sorted(a + b), zero=[],
        present=lambda p: p[(len(p) - 1) // 2] if p else None, result_type="double", samples=[1, 2, 3],
    )  # fmt: skip
    app.view("middle", visits.group_by("page").agg(people=ps.quantile("user", 0.5, k=8).in_batch(median), n=ps.count()))
    outside = ps.approx_distinct("soundex(page)").in_batch(ps.count_distinct("soundex(page)"))
    app.view("sounds", visits.group_by().agg(people=outside, n=ps.count()))
    coded = visits.transform(lambda rows: rows.where("user % 2 = 0"), schema=visits.schema.ddl())
    app.view("coded", coded.group_by("page").window(ps.fixed("10 seconds")).agg(people=PEOPLE, n=ps.count()))
    feed.write(0, 20)
    with running(app, tmp_path / "state", spark) as run:
        check(run, app, "middle", "sounds", "coded")
        list(batch(run))
        users: dict[str, list[int]] = {}
        for line in (tmp_path / "visits" / "0001.json").read_text().splitlines():
            users.setdefault(json.loads(line)["page"], []).append(json.loads(line)["user"])
        found = dict(run.store.query("SELECT page, people FROM middle WHERE people_exact").rows())
        assert found == {page: sorted(several)[(len(several) - 1) // 2] for page, several in users.items()}
        assert run.store.query("SELECT people, people_exact FROM sounds").rows() == [(2, 1)]
        assert all(run.store.query("SELECT people_exact FROM coded").to_series())
        check(run, app, "middle", "sounds")
        feed.write(15, 30)
        run.catch_up()
        assert set(run.store.query("SELECT people_exact FROM coded").to_series()) == {0, 1}
        check(run, app, "middle", "sounds")
        with pytest.raises(RunError, match="which commit brought them"):
            list(batch(run, ["coded"], late="as-live"))


def test_as_live_is_refused_where_the_past_does_not_tell(spark, tmp_path):
    from penstock.history.batch.runs import From, replay

    feed, app = Feed(tmp_path / "visits", 6), an_app(tmp_path / "visits", "fixed")
    feed.write(0, 20)
    with running(app, tmp_path / "state", spark) as run:
        list(replay(run, "visits", From.parse("beginning")))
        with pytest.raises(RunError, match="replayed"):
            list(batch(run, late="as-live"))
