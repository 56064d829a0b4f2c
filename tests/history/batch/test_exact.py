"""Cheap live, exact in batch: the laws of such pairs, and rows that are exact until a later one touches them."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.admit import admit
from penstock.kernel.aggregates import columns
from penstock.kernel.exact import answered, as_past, widened
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.memory import Memory
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine, reduce
from penstock.kernel.step import step
from penstock.model.aggregates import Origin
from penstock.model.aggregates.paired import ANSWERED, LIVE, NOTHING, PAST, Both, joined
from penstock.model.commits import Event
from penstock.model.time import BEGINNING
from penstock.model.view import View
from penstock.sql.showing import show
from penstock.store import Commit, SqliteStore
from penstock.store.generations import Origin as Made
from penstock.store.generations import Scope
from penstock.testing import TestStream, run
from tests.store.sharded import commit_step, table

SECOND = 1_000_000
PAIR = ps.approx_distinct("user").in_batch(ps.count_distinct("user"))
VISITS = ps.stream(
    "visits", schema="page string, user string, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"),
    max_ahead=None,
)  # fmt: skip
BY_PAGE = VISITS.group_by("page")
WINDOWS = {
    "fixed": ps.fixed("10 seconds"),
    "sliding": ps.sliding("20 seconds", every="10 seconds"),
    "session": ps.session("2 seconds"),
    "counted": ps.count_window(8),
    "global": ps.global_window(),
}


def test_states_join_in_any_order_and_grouping():
    states = (NOTHING, ANSWERED, PAST, LIVE)
    for a, b, c in itertools.product(states, repeat=3):
        assert joined(a, b) == joined(b, a)
        assert joined(joined(a, b), c) == joined(a, joined(b, c))
    assert [joined(NOTHING, state) for state in states] == list(states)


def test_an_answer_holds_for_its_own_rows_only():
    at = Origin(0, 0, 0)
    row = PAIR.lift(("ann",), at)
    told = Both(row.live, ANSWERED, 7)
    assert PAIR.present(row) == 1
    assert PAIR.present(PAIR.merge(told, PAIR.zero())) == 7
    assert PAIR.present(PAIR.merge(PAIR.zero(), told)) == 7
    assert PAIR.merge(told, row) == PAIR.merge(row, told)
    assert PAIR.present(PAIR.merge(told, row)) == 1
    assert PAIR.merge(told, told).answer is None


def test_columns_combine_as_the_model_merges():
    part, chance = columns(PAIR, "people", ("string",)), random.Random(3)
    for _ in range(50):
        given = []
        for _ in range(chance.randrange(1, 5)):
            state = chance.choice([NOTHING, ANSWERED, PAST, LIVE])
            live = PAIR.live.zero() if state == NOTHING else PAIR.live.lift((chance.choice("abc"),), Origin(0, 0, 0))
            given.append(Both(live, state, chance.choice([7, 8, None]) if state == ANSWERED else None))
        frame = pl.DataFrame(given, schema=part.fields, orient="row").with_columns(pl.lit("k").alias("k"))
        found = part.settle(frame.group_by("k").agg(part.combine()))
        model = PAIR.zero()
        for one in given:
            model = PAIR.merge(model, one)
        assert found.select("people.state", "people.answer").row(0) == (model.state, model.answer)
        assert part.present(found).to_list() == [PAIR.present(model)]


def test_wrong_pairs_are_refused_with_what_to_do():
    for make, said in (
        (lambda: ps.count().in_batch(ps.count()), "is exact already"),
        (lambda: ps.approx_distinct("user").in_batch(ps.approx_distinct("user")), "is not exact"),
        (lambda: ps.approx_distinct("user", where="page = 'a'").in_batch(ps.count_distinct("user")), "the same rows"),
        (lambda: ps.approx_distinct("user").in_batch("user"), "not an aggregate"),
        (lambda: PAIR.in_batch(ps.count_distinct("user")), "one for batch"),
        (lambda: BY_PAGE.agg(n=ps.approx_distinct("user").in_batch(ps.max("user"))), "bigint live and with string"),
        (lambda: BY_PAGE.agg(n=PAIR, n_exact=ps.count()), "says whether 'n' is exact"),
    ):
        with pytest.raises(DefinitionError, match=said):
            make()
    signed = ps.stream("s", schema="user string, sign int", sign="sign")
    with pytest.raises(DefinitionError, match="retractions"):
        signed.group_by().agg(n=PAIR)


def test_a_view_has_the_column_beside_and_is_written_as_its_user_did():
    view = BY_PAGE.agg(people=PAIR, n=ps.count())
    assert view.columns == ("page", "window_start", "window_end", "people", "people_exact", "n", "final")
    assert view.value_types == {"people": "bigint", "people_exact": "boolean", "n": "bigint"}
    assert "agg(people=ps.approx_distinct('user').in_batch(ps.count_distinct('user')), n=ps.count())" in repr(view)
    assert "until a later row touches it; people_exact says which" in view.explain()
    assert view.select("people", sure="people_exact").columns[3:5] == ("people", "sure")


def test_what_sql_cannot_say_of_pairs_is_refused():
    call = "approx_count_distinct(user, exact_in_batch => true) AS people"
    view = BY_PAGE.agg(people=PAIR, n=ps.count())
    assert f"SELECT page, {call}, count(*) AS n\n" in show(view, "v")
    assert f"SELECT page, {call}\n" in show(view.select("people", "people_exact"), "v")
    other = ps.approx_distinct("user").in_batch(ps.count_distinct("upper(user)"))
    for wrong in (
        view.select("people", sure="people_exact"),
        view.select("n").having("people_exact"),
        BY_PAGE.agg(people=other),
    ):
        with pytest.raises(DefinitionError, match="SQL cannot express"):
            show(wrong, "v")


def test_live_alone_is_never_exact():
    view = BY_PAGE.window(ps.fixed("10 seconds")).agg(people=PAIR)
    script = TestStream(VISITS).add(("a", "ann", "12:00:01")).add(("a", "bob", "12:00:12"))
    for engine in ("reference", "kernel"):
        (pane,) = run(view, script, engine=engine).panes
        assert (pane["people"], pane["people_exact"]) == (1, False)


class Driven:
    """A view in a store, stepped by rows; batch runs over all rows so far, as a generation makes them."""

    def __init__(self, directory: Path, view: View, is_sharded: bool = False) -> None:
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self.plan, self.rows, self.mark = Plan(view), [], BEGINNING
        self.store.prepare({"v": self.plan})
        if is_sharded:
            self.store.shard("v", 4)

    def deltas(self, plan: Plan, rows: list, first: int) -> pl.DataFrame:
        events = [
            Event("visits", {"page": page, "user": user, "at": round(at * SECOND)}, 0, first + number)
            for number, (page, user, at) in enumerate(rows)
        ]
        return reduce(plan, "visits", admit(VISITS, events_frame(VISITS, events, 0), 0).rows, BEGINNING).deltas

    def _time(self) -> Time:
        return Time(self.mark, self.mark, 0, lambda _: self.mark)

    def commit(self, rows: list) -> None:
        commit_step(self.store, "v", [self.deltas(self.plan, rows, len(self.rows))], self._time())
        self.rows += rows

    def batch(self, cuts: int = 2, aside: list = ()) -> None:
        """A generation of all rows, from several tasks; `aside` came while it was made."""
        wide, hidden = widened(self.plan), self.store.generations.hidden("v")
        self.store.generations.begin(hidden, self.plan)
        size = -(-len(self.rows) // cuts)
        parts = [self.deltas(wide, self.rows[at : at + size], at) for at in range(0, len(self.rows), size)]
        deltas = as_past(self.plan, combine(wide, parts))
        change = answered(wide, self.plan, step(wide, [deltas], Memory(wide), self._time()))
        self.store.generations.load(hidden, change)
        if aside:
            later = self.deltas(self.plan, aside, len(self.rows))
            self.store.generations.load(hidden, step(self.plan, [later], self.store.state(hidden), self._time()))
            self.rows += aside
        self.store.generations.swap(
            "v", hidden, Commit("swap", 0, view_times={"v": self.mark}), Made("batch", 1), Scope()
        )
        self.store.generations.end(hidden)

    def columns(self, *names: str) -> list[tuple]:
        return table(self.store, "v").select(names).rows()

    def table(self) -> dict:
        rows = self.columns("page", "window_start", "people", "people_exact")
        return {(page, start): (people, bool(exact)) for page, start, people, exact in rows}


def drawn(chance: random.Random, count: int) -> list:
    return [(chance.choice("ab"), f"u{chance.randrange(200)}", chance.random() * 60) for _ in range(count)]


@pytest.mark.parametrize("place", ["tables", "segments"])
@pytest.mark.parametrize("accumulation", ["accumulating", "retracting", "discarding"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_exact_until_touched_in_any_window(tmp_path, kind, accumulation, place):
    """Both tables that the store could have: exact where no row came since the batch run, else the sketch of all."""
    chance = random.Random(f"{kind}{accumulation}")
    rough = ps.approx_distinct("user", lg_k=4).in_batch(ps.count_distinct("user"))
    view = BY_PAGE.window(WINDOWS[kind]).agg(people=rough, seen=ps.count_distinct("user"), n=ps.count())
    view = getattr(view, accumulation)()
    driven = Driven(tmp_path, view, is_sharded=place == "segments")
    for _ in range(3):
        driven.commit(drawn(chance, 40))
    assert not any(exact for _, exact in driven.table().values())
    driven.batch()
    assert all(exact for _, exact in driven.table().values())
    assert all(people == seen for people, seen in driven.columns("people", "seen"))
    before = driven.columns("page", "window_start", "n")
    driven.commit(drawn(chance, 3))
    after = driven.columns("page", "window_start", "n", "people", "people_exact", "seen")
    assert 0 in {exact for *_, exact, _ in after}
    for page, start, n, people, exact, count in after:
        assert bool(exact) == ((page, start, n) in before)
        assert abs(people - count) <= (0 if exact else 1 + count)
    driven.batch(3, aside=drawn(chance, 2))
    assert 0 in {exact for _, exact in driven.table().values()}
    driven.batch(1)
    assert all(exact for _, exact in driven.table().values())


def test_rows_that_the_aggregate_does_not_take_touch_nothing(tmp_path):
    pair = ps.approx_distinct("user", where="user <> 'bot'").in_batch(ps.count_distinct("user", where="user <> 'bot'"))
    driven = Driven(tmp_path, BY_PAGE.agg(people=pair, n=ps.count()))
    driven.commit([("a", "ann", 1), ("a", "bot", 2)])
    driven.batch()
    driven.commit([("a", "bot", 3)])
    assert driven.table() == {("a", None): (1, True)}
    driven.commit([("a", "ann", 3)])
    assert driven.table() == {("a", None): (1, False)}


def test_a_store_that_is_opened_again_knows_what_is_exact(tmp_path):
    view = BY_PAGE.window(ps.fixed("10 seconds")).agg(people=PAIR)
    driven = Driven(tmp_path, view)
    driven.commit(drawn(random.Random(1), 60))
    driven.batch()
    known = driven.table()
    driven.store.close()
    again = Driven(tmp_path, view)
    assert again.table() == known
    again.commit([("a", "zoe", 1)])
    assert [place for place, (_, exact) in again.table().items() if not exact] == [("a", "1970-01-01 00:00:00")]


def test_the_exact_aggregate_may_be_a_monoid_of_the_users(tmp_path):
    median = ps.monoid(
        "median", "length(user)", lift=lambda n: [float(n)], merge=lambda a, b: sorted(a + b), zero=[],
        present=lambda p: p[(len(p) - 1) // 2] if p else None, result_type="double", samples=[1, 2, 3],
    )  # fmt: skip
    pair = ps.quantile("length(user)", 0.5, k=8).in_batch(median)
    driven = Driven(tmp_path, BY_PAGE.agg(people=pair))
    lengths = random.Random(5).choices(range(1, 1000), k=301)
    driven.commit([("a", "x" * n, 1) for n in lengths])
    driven.batch()
    assert driven.table() == {("a", None): (float(sorted(lengths)[150]), True)}
    driven.commit([("a", "x", 1)])
    ((people, exact),) = driven.table().values()
    assert not exact
    assert 200 < people < 800
