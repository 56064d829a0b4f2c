"""Processors without Spark: state, timers, side outputs, and what happens to an event on which user code fails."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.cell import Cell, dumped, loaded
from penstock.model.pattern_processor import processor_of
from penstock.model.played import ProcessRun
from penstock.model.played import played as play
from penstock.model.process import process_of
from penstock.model.processing import MOST_TIMERS
from penstock.testing import TestStream, process

clicks = ps.stream(
    "clicks", schema="user string, page string, at timestamp", event_time="at", watermark=ps.bounded("10 seconds")
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2000-01-01T{text}+00:00")


class Sessions(ps.Processor):
    """A session ends ten minutes after its last click."""

    output = "user string, clicks bigint, at timestamp"
    sides: ClassVar = {"errors": "user string, page string"}
    clicks = ps.value("bigint", default=0)
    pages = ps.list_of("string")

    def on_event(self, key, event, time):
        self.clicks += 1
        self.pages.append(event.page)
        if event["page"] == "/500":
            self.emit_to("errors", user=key, page=event.page)
        self.set_timer(time + timedelta(minutes=10), name="end")

    def on_timer(self, key, timer):
        yield {"user": key, "clicks": self.clicks, "at": timer.at}
        self.clear()


def test_a_timer_of_event_time_fires_when_the_watermark_has_reached_it():
    script = TestStream(clicks).add(("ann", "/a", "12:00:00"), ("bob", "/b", "12:05:00")).watermark("12:10:00")
    found = process(Sessions, script, by="user")
    assert found.rows == [{"user": "ann", "clicks": 1, "at": at("12:10:00")}]
    assert found.state == {"bob": {"clicks": 1, "pages": ["/b"]}}


def test_a_timer_with_a_name_moves_when_it_is_set_again():
    script = TestStream(clicks).add(("ann", "/a", "12:00:00"), ("ann", "/b", "12:05:00")).watermark("12:14:59")
    assert process(Sessions, script, by="user").rows == []
    assert process(Sessions, script.watermark("12:15:00"), by="user").rows[0]["clicks"] == 2


def test_side_outputs_stand_apart():
    script = TestStream(clicks).add(("ann", "/500", "12:00:00"))
    found = process(Sessions, script, by="user")
    assert found.sides == {"errors": [{"user": "ann", "page": "/500"}]}
    assert found.rows == []


def test_an_event_behind_the_watermark_is_late_and_does_not_come():
    script = TestStream(clicks).watermark("12:00:00").add(("ann", "/a", "11:59:59"), ("ann", "/b", "12:00:00"))
    found = process(Sessions, script, by="user")
    assert [row["page"] for row in found.late] == ["/a"]
    assert found.state["ann"]["pages"] == ["/b"]
    allowed = process(Sessions, script, by="user", allow_late="1 second")
    assert allowed.late == []
    assert allowed.state["ann"]["pages"] == ["/a", "/b"]


class Fragile(ps.Processor):
    output = "n bigint"
    n = ps.value("bigint", default=0)
    seen = ps.list_of("string")
    counts = ps.map_of("string", "bigint")

    def on_event(self, key, event, time):
        self.n += 1
        self.seen.append(event.page)
        self.counts[event.page] = self.counts.get(event.page, 0) + 1
        self.set_timer(after="1 minute")
        self.emit(n=self.n)
        if event.page == "/bad":
            self.seen[0] = "spoilt"
            del self.counts["/a"]
            self.cancel_timer(time + timedelta(minutes=1))
            raise ValueError("no such page")
        if event.page == "/wrong":
            yield {"n": "many"}


def test_an_event_on_which_code_fails_is_a_dead_letter_and_has_not_happened():
    events = [("ann", "/a", "12:00:00"), ("ann", "/bad", "12:00:01"), ("ann", "/wrong", "12:00:02")]
    found = process(Fragile, TestStream(clicks).add(*events), by="user")
    assert [row["n"] for row in found.rows] == [1]
    assert found.state == {"ann": {"n": 1, "seen": ["/a"], "counts": {"/a": 1}}}
    assert [row["reason"] for row in found.dead] == [
        "the processor Fragile failed: ValueError: no such page",
        "the processor Fragile failed: the column 'n' of the output: 'many' is not of type bigint",
    ]


def test_a_timer_on_which_code_fails_is_a_dead_letter_and_does_not_come_again():
    class Failing(Sessions):
        def on_timer(self, key, timer):
            self.clicks = 99
            raise RuntimeError("broken")

    script = TestStream(clicks).add(("ann", "/a", "12:00:00")).watermark("13:00:00").watermark("14:00:00")
    found = process(Failing, script, by="user")
    assert [(row["key"], row["timer"].name) for row in found.dead] == [("ann", "end")]
    assert found.state["ann"]["clicks"] == 1


class Moving(ps.Processor):
    """Sets one timer again and again, and does what pages say."""

    output = "timers string"

    def on_event(self, key, event, time):
        due = time + timedelta(minutes=1)
        self.set_timer(due, name="end")
        if event.page == "/look":
            yield {"timers": " ".join(f"{timer.name} {timer.at:%H:%M:%S}" for timer in self.timers)}
        elif event.page == "/later":
            self.set_timer(due.replace(tzinfo=None) + timedelta(minutes=1), name="end")
        elif event.page == "/cancel":
            self.cancel_timer("end")
        elif event.page == "/clear":
            self.clear()
        elif event.page == "/fail":
            raise ValueError("no")

    def on_timer(self, key, timer):
        yield {"timers": f"{timer.name} is due at {timer.at:%H:%M:%S}"}


@pytest.mark.parametrize(
    ("pages", "rows"),
    [
        (["/", "/"], ["end is due at 12:01:01"]),
        (["/", "/look", "/"], ["end 12:01:01", "end is due at 12:01:02"]),
        (["/", "/later"], ["end is due at 12:02:01"]),
        (["/later", "/"], ["end is due at 12:01:01"]),
        (["/", "/cancel"], []),
        (["/", "/clear"], []),
        (["/cancel", "/"], ["end is due at 12:01:01"]),
        (["/", "/fail"], ["end is due at 12:01:00"]),
        (["/look", "/fail"], ["end 12:01:00", "end is due at 12:01:00"]),
    ],
)
def test_a_timer_is_due_when_it_was_set_last(pages: list[str], rows: list[str]) -> None:
    events = [("ann", page, f"12:00:0{second}") for second, page in enumerate(pages)]
    found = process(Moving, TestStream(clicks).add(*events).watermark("14:00:00"), by="user")
    assert [row["timers"] for row in found.rows] == rows


def test_timers_without_end_are_stopped():
    class Endless(ps.Processor):
        output = "n bigint"

        def on_event(self, key, event, time):
            self.set_timer(time)

        def on_timer(self, key, timer):
            self.set_timer(timer.at + timedelta(microseconds=1))

    found = process(Endless, TestStream(clicks).add(("ann", "/", "12:00:00")).watermark("13:00:00"), by="user")
    assert found.dead[0]["reason"].endswith(f"{MOST_TIMERS} of one key were due at once")


class Clocked(ps.Processor):
    output = "user string, at timestamp, clock string"

    def on_event(self, key, event, time):
        self.set_timer(after="10 seconds", clock="processing")

    def on_timer(self, key, timer):
        yield key, self.now, timer.clock


def test_a_timer_of_processing_time_fires_by_the_clock():
    script = TestStream(clicks, clock="09:00:00").add(("ann", "/", "12:00:00")).clock("+9 seconds").clock("+1 second")
    found = process(Clocked, script, by="user")
    assert found.rows == [{"user": "ann", "at": at("09:00:10"), "clock": "processing"}]


class Recent(ps.Processor):
    output = "n bigint, pages array<string>, kinds bigint"
    n = ps.value("bigint", default=0, ttl="1 minute")
    pages = ps.list_of("string", ttl="1 minute")
    kinds = ps.map_of("string", "boolean", ttl="1 minute")

    def on_event(self, key, event, time):
        self.n += 1
        self.pages.append(event.page)
        self.kinds[event.page] = True
        yield self.n, list(self.pages), len(self.kinds)


def test_what_is_older_than_its_ttl_is_gone():
    script = TestStream(clicks, clock="09:00:00").add(("ann", "/a", "12:00:00")).clock("+30 seconds")
    script = script.add(("ann", "/b", "12:00:01")).clock("+45 seconds").add(("ann", "/c", "12:00:02"))
    rows = process(Recent, script, by="user").rows
    assert [row["n"] for row in rows] == [1, 2, 3]  # each click writes it anew
    assert [row["pages"] for row in rows] == [["/a"], ["/a", "/b"], ["/b", "/c"]]
    assert [row["kinds"] for row in rows] == [1, 2, 2]
    assert process(Recent, script.clock("+61 seconds"), by="user").state == {}


def test_several_keys_come_as_a_row_and_no_key_as_an_empty_one():
    class Keys(ps.Processor):
        output = "key string"

        def on_event(self, key, event, time):
            yield {"key": repr(tuple(key))}

    script = TestStream(clicks).add(("ann", "/a", "12:00:00"))
    assert process(Keys, script, by=("user", "upper(page) AS p")).rows == [{"key": "('ann', '/A')"}]
    assert process(Keys, script).rows == [{"key": "()"}]


def test_the_steps_before_a_processor_are_those_of_any_flow():
    flow = clicks.where("page <> '/no'").select("user", size="length(page)")

    class Sizes(ps.Processor):
        output = "user string, size int"

        def on_event(self, key, event, time):
            yield {"user": key, "size": event.size}

    script = TestStream(clicks).add(("ann", "/no", "12:00:00"), ("bob", "/yes", "12:00:00"))
    assert process(Sizes, script, by="user", of=flow).rows == [{"user": "bob", "size": 4}]


KINDS = [
    ("tinyint", 7), ("smallint", 7), ("int", 7), ("bigint", -(1 << 63)), ("float", 0.5), ("double", 1e300),
    ("boolean", False), ("string", "ä"), ("binary", b"\x00\xff"), ("date", date(2024, 2, 29)),
    ("timestamp", datetime(2024, 2, 29, 12, tzinfo=UTC)), ("decimal(10,2)", Decimal("1.50")),
    ("array<date>", [date(2024, 1, 1), None]), ("array<array<binary>>", [[b"a"], []]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), KINDS)
def test_a_cell_survives_as_text(kind: str, given: Any):
    class Any_(ps.Processor):
        output = "n bigint"
        one = ps.value(kind, ttl="1 day")
        many = ps.list_of(kind)
        by_text = ps.map_of("string", kind)

        def on_event(self, key, event, time): ...

    user = Any_()
    user._cell = Cell()
    user.one = given
    user.many.append(given)
    user.by_text["x"] = given
    states = {name: vars(Any_)[name] for name in ("one", "many", "by_text")}
    user._cell, beside = loaded(dumped(user._cell, states, {"e": 1}), states)
    assert (user.one, list(user.many), dict(user.by_text), beside) == (given, [given], {"x": given}, {"e": 1})


def test_a_state_that_nobody_declares_any_more_stays_and_one_of_another_type_is_another():
    number, text = ps.value("bigint"), ps.value("string")
    number.name = text.name = "x"
    cell = Cell()
    cell.put("x", (7, None))
    other, _ = loaded(dumped(cell, {"x": number}), {"x": text})
    assert "x" not in other.states
    other.put("x", ("seven", None))
    again, _ = loaded(dumped(other, {"x": text}), {"x": number})
    assert again.states["x"] == (7, None)


def test_lists_and_maps_are_lists_and_maps():
    class Holder(ps.Processor):
        output = "n bigint"
        many = ps.list_of("bigint")
        named = ps.map_of("string", "bigint")

        def on_event(self, key, event, time): ...

    user = Holder()
    user._cell = Cell()
    user.many = [1, 2, 3]
    user.many.insert(0, 0)
    user.many[1:3] = [9]
    del user.many[-1]
    assert user.many == [0, 9]
    assert user.many[::-1] == [9, 0]
    user.named = {"a": 1, "b": 2}
    assert user.named.pop("a") == 1
    assert dict(user.named) == {"b": 2}
    assert "a" not in user.named
    with pytest.raises(KeyError):
        del user.named["a"]
    user.named.clear()
    user.many.clear()
    assert user._cell.is_empty


def played(processor: type[ps.Processor]) -> ProcessRun:
    return process(processor, TestStream(clicks), by="user")


def test_a_wrong_definition_is_refused_with_what_to_do():
    class Nameless(ps.Processor):
        def on_event(self, key, event, time): ...

    class Idle(ps.Processor):
        output = "n bigint"

    with pytest.raises(DefinitionError, match="does not declare what it gives out"):
        played(Nameless)
    with pytest.raises(DefinitionError, match="has no on_event"):
        played(Idle)
    with pytest.raises(DefinitionError, match="not a processor"):
        played(len)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="has no values of type map"):
        ps.value("map<string,int>")
    with pytest.raises(DefinitionError, match="columns that come to the processor are not known"):
        process(Sessions, TestStream(clicks), by="user", of=clicks.transform(lambda df: df))
    with pytest.raises(DefinitionError, match="DataFrame code, which needs Spark"):
        process(Sessions, TestStream(clicks), by="user", of=clicks.transform(lambda df: df, schema="user string"))
    with pytest.raises(DefinitionError, match="needs Spark"):
        process(Sessions, TestStream(clicks), by="user", of=clicks.where("soundex(page) = 'x'"))
    signed = ps.stream("s", schema="user string, change int", sign="change")
    with pytest.raises(DefinitionError, match="there is a column of this name"):
        process(Sessions, TestStream(signed), by="user")
    pattern = processor_of(ps.pattern("a", lambda e: True), "n bigint", lambda key, m: None)
    with pytest.raises(DefinitionError, match="a pattern takes final rows only"):
        process(pattern, TestStream(signed), by="user")


def test_code_sees_that_a_row_takes_an_earlier_one_back():
    signed = ps.stream("s", schema="user string, n bigint, sign int", sign="sign")

    class Sum(ps.Processor):
        output = "user string, total bigint"
        total = ps.value("bigint", default=0)

        def on_event(self, key, event, time):
            self.total += event.change * event.n
            yield key, self.total

    script = TestStream(signed).add(("ann", 5, 1), ("ann", 7, 1), ("ann", 5, -1))
    assert [row["total"] for row in process(Sum, script, by="user").rows] == [5, 12, 7]


def test_a_table_may_stand_before_a_processor():
    users = ps.table("users", schema="id string, tier string", key="id")

    class Tiers(ps.Processor):
        output = "tier string"

        def on_event(self, key, event, time):
            yield {"tier": event.tier}

    script = TestStream(clicks).table(users, ("ann", "gold")).add(("ann", "/a", "12:00:00"))
    found = process(Tiers, script, by="user", of=clicks.join(users, on="user = id"))
    assert found.rows == [{"tier": "gold"}]


class Priced(ps.Processor):
    output = "user string, spent bigint, all_prices bigint"
    spent = ps.value("bigint", default=0)
    pages = ps.list_of("string")

    def on_event(self, key, event, time):
        row = self.table("prices").get(event.page)
        self.spent += 0 if row is None else row.price
        self.pages.append(event.page)
        yield key, self.spent, sum(one.price for one in self.table("prices").rows())
        if event.page == "/end":
            self.clear()


PRICES = ps.table("prices", schema="page string, price bigint", key="page")


def test_code_reads_the_version_of_a_table_that_is_in_force():
    script = TestStream(clicks).table(PRICES, ("/a", 2), ("/b", 3)).add(("ann", "/a", "12:00:00"))
    script = script.table(PRICES, ("/a", 10)).add(("ann", "/a", "12:00:01"), ("ann", "/b", "12:00:02"))
    priced = process_of(clicks, Priced, "user", tables=[PRICES])
    found = play(priced, script.commits())
    assert [(row["spent"], row["all_prices"]) for row in found.rows] == [(2, 5), (12, 10), (12, 10)]
    unknown = play(process_of(clicks, Priced, "user"), script.commits())
    assert "unknown table of the processor" in unknown.dead[0]["reason"]


def test_a_key_begins_with_its_initial_row_once():
    rows = [{"user": "ann", "spent": 100, "pages": ["/old"]}, {"user": "bob", "spent": 7}]
    priced = process_of(clicks, Priced, "user", tables=[PRICES], initial=rows)
    script = TestStream(clicks).table(PRICES, ("/a", 1), ("/end", 0)).add(("ann", "/a", "12:00:00"))
    script = script.add(("ann", "/end", "12:00:01")).add(("ann", "/a", "12:00:02"), ("eve", "/a", "12:00:03"))
    found = play(priced, script.commits())
    assert [(row["user"], row["spent"]) for row in found.rows] == [("ann", 101), ("ann", 101), ("ann", 1), ("eve", 1)]
    assert found.state == {"ann": {"spent": 1, "pages": ["/a"]}, "eve": {"spent": 1, "pages": ["/a"]}}


def test_initial_rows_must_fit_the_processor():
    for rows, said in (
        ([{"user": "ann", "spend": 1}], "spend"),
        ([{"user": "ann"}, {"user": "ann"}], "two rows"),
        ([{"user": "ann", "spent": "much"}], "spent"),
        (PRICES, None),
        (ps.table("t", schema="a string, b string", key=("a", "b")), "the same key|has the key"),
        (ps.table("t", schema="a string, spent string", key="a"), "'spent' is string"),
    ):
        if said is None:
            process_of(clicks, Priced, "user", initial=rows)
        else:
            with pytest.raises(DefinitionError, match=said):
                process_of(clicks, Priced, "user", initial=rows)
