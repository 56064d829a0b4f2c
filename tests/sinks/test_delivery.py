"""Sinks that fail or are slow: they are tried again, others go on, nothing is lost, and the outbox is trimmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from penstock.errors import DefinitionError
from penstock.sinks import Delivery, read_jsonl, to_function, to_jsonl
from penstock.sinks.pane_reader import PaneReader
from penstock.store.arrivals import DeliveryTime
from penstock.store.outbox import take_over
from tests.outbox import panes
from tests.sinks.support import LIVE, Collected


class Failing(Collected):
    """Fails so many times, then works."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left, self.tries = times, 0

    def __call__(self, rows: list) -> None:
        self.tries += 1
        if self.left:
            self.left -= 1
            raise ConnectionError("nobody answers")
        super().__call__(rows)


def test_a_failing_sink_is_tried_again_with_longer_whiles_and_others_go_on(feed, tmp_path):
    fed, now, broken, good = feed(), [0.0], Failing(3), Collected()
    fed.step(2)
    delivery = fed.delivery(
        {"clock": lambda: now[0], "retry": (1.0, 3.0)},
        broken=to_function(broken), good=to_function(good), out=to_jsonl(tmp_path / "out"),
    )  # fmt: skip
    tried = []
    for tick in range(12):
        now[0] = float(tick)
        before = broken.tries
        delivery.deliver()
        if broken.tries > before:
            tried.append(tick)
        if tick == 4:
            assert str(delivery.failures["broken"].error) == "nobody answers"
            assert delivery.failures["broken"].count == 3
            assert list(delivery.failures) == ["broken"]
            assert good.ids == [row["pane"] for row in read_jsonl(tmp_path / "out")] == fed.ids()
            assert fed.store.position("broken") == 0
    assert tried == [0, 1, 3, 6], "after 1, 2 and, at the most, 3 seconds"
    assert delivery.failures == {}
    assert broken.ids == good.ids == fed.ids()
    delivery.close()


def test_a_function_gets_panes_at_least_once_with_the_same_ids(feed):
    fed, got = feed(), Collected()
    fed.step(4)

    def dies(positions: Mapping[str, int], deliveries: object) -> None:
        raise RuntimeError("killed")

    dying = fed.delivery({"commit_positions": dies}, f=to_function(got, batch=3))
    dying.deliver()
    dying.close()
    assert got.ids == [1, 2, 3]
    fed.deliver(f=to_function(got, batch=3))
    assert [len(call) for call in got.calls[:3]] == [3, 3, 3]
    assert got.ids[:6] == [1, 2, 3, 1, 2, 3]
    assert sorted(set(got.ids)) == fed.ids()


def test_a_slow_sink_holds_up_neither_the_caller_nor_the_others(feed):
    fed, good, slow = feed(), Collected(), Collected()
    entered, go = threading.Event(), threading.Event()

    def wait(rows: list) -> None:
        entered.set()
        assert go.wait(60)
        slow(rows)

    fed.step(3)
    delivery = fed.delivery({"patience": 0.05}, slow=to_function(wait), good=to_function(good))
    until(lambda: (delivery.deliver(), good.ids == fed.ids())[1] and entered.is_set())
    fed.step(3)
    until(lambda: (delivery.deliver(), good.ids == fed.ids())[1])
    assert slow.rows == []
    assert delivery.failures == {}
    go.set()
    until(lambda: (delivery.deliver(), slow.ids == fed.ids())[1])
    delivery.close()
    assert fed.store.position("slow") == fed.ids()[-1]


def until(done) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end


def test_delivery_goes_on_while_the_store_commits(feed, tmp_path):
    fed, lock = feed(), threading.Lock()

    def commit_positions(positions: Mapping[str, int], deliveries: Collection[DeliveryTime]) -> None:
        with lock:
            fed.store.delivered(positions, deliveries)

    delivery = fed.delivery({"commit_positions": commit_positions}, out=to_jsonl(tmp_path / "out"))
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            delivery.deliver()

    thread = threading.Thread(target=loop)
    thread.start()
    for _ in range(20):
        with lock:
            fed.step()
    stop.set()
    thread.join()
    delivery.deliver()
    assert delivery.failures == {}
    delivery.close()
    assert [row["pane"] for row in read_jsonl(tmp_path / "out")] == fed.ids()


# Positions


def test_panes_of_other_views_are_passed_over(feed):
    fed, got = feed(), Collected()
    fed.step(6)
    nothing = Collected()
    delivery = Delivery(
        fed.store, {"mine": ("v", LIVE, to_function(got, batch=3)), "other": ("w", LIVE, to_function(nothing))},
        commit_positions=fed.store.delivered, trim=fed.store.trim_outbox, patience=60, save_every=4,
    )  # fmt: skip
    assert delivery.deliver() == len(fed.ids())
    assert (got.ids, nothing.rows) == (fed.ids(), [])
    assert delivery.positions == {"mine": fed.ids()[-1], "other": fed.ids()[-1]}
    assert fed.store.position("other") > 0, "also saved, now and then, where there is nothing to deliver"
    delivery.close()


def test_a_sink_goes_on_with_panes_that_a_store_of_before_had_as_json(feed):
    fed, got, same, expected = feed(), Collected(), feed(name="same"), Collected()
    for one in (fed, same):
        one.step(3)
    fed.deliver(f=to_function(got))
    for one in (fed, same):
        one.step(3)
    with fed.store._transaction() as connection:
        rows = panes(fed.store).with_columns(pl.col("final").cast(pl.Int64))
        columns = ", ".join(f'"{name}"' for name in rows.columns)
        connection.run(f"CREATE TABLE __panes ({columns})")
        connection.put("__panes", rows, columns=rows.columns)
        connection.run("DROP TABLE __outbox")
        take_over(connection)
    fed.step(3)
    same.step(3)
    assert fed.deliver(f=to_function(got), u=to_function(Collected(), mode="complete")) > 0
    same.deliver(f=to_function(expected))
    assert got.rows == expected.rows


def test_only_sinks_with_something_to_take_get_a_thread(feed):
    fed, got = feed(), Collected()
    delivery = fed.delivery(mine=to_function(got))
    for number in range(20):
        delivery.add(f"other{number}", f"view{number}", LIVE, to_function(got))
    fed.step(2)
    before = set(threading.enumerate())
    started: list[str] = []
    original = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        started.append(thread.name)
        original(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        delivery.deliver()
        assert started == ["penstock-sink-mine"]
        delivery.deliver()
        assert started == ["penstock-sink-mine"], "nothing new"
    assert set(delivery.positions.values()) == {fed.ids()[-1]}, "the others have passed over what is not theirs"
    assert set(threading.enumerate()) <= before
    delivery.close()


def test_a_sink_reads_only_blocks_of_its_view_and_sinks_of_one_view_read_each_block_once(feed):
    fed, got = feed(), Collected()
    fed.step(4)
    read: list[tuple[str, int]] = []
    original = fed.store.new_blocks

    def new_blocks(views: Sequence[str], after: int, limit: int):
        answer = original(views, after, limit)
        read.extend((view, block.last) for view, block in answer)
        return answer

    fed.store.new_blocks = new_blocks
    fed.store.blocks = None  # nobody is behind
    delivery = fed.delivery(one=to_function(got, batch=3), two=to_function(Collected()), all=to_function(Collected()))
    delivery.add("other", "w", LIVE, to_function(got))
    delivery.deliver()
    assert delivery.failures == {}
    assert sorted(read) == [("v", head.last) for head in fed.store.heads("v", 0, 99)]
    delivery.close()


def test_a_commit_that_comes_while_a_sink_is_at_work_is_taken_by_the_same_thread(feed):
    fed, got = feed(), Collected()
    entered, go = threading.Event(), threading.Event()

    def wait(rows: list) -> None:
        entered.set()
        assert go.wait(60)
        got(rows)

    fed.step(1)
    delivery = fed.delivery(slow=to_function(wait))
    delivery.start()
    assert entered.wait(60)
    fed.step(1)
    delivery.start()
    go.set()
    until(lambda: got.ids == fed.ids())
    delivery.close()


def test_sinks_come_and_go(feed):
    fed, first, second = feed(), Collected(), Collected()
    delivery = fed.delivery(first=to_function(first))
    fed.step(2)
    delivery.deliver()
    delivery.add("second", "v", LIVE, to_function(second))
    delivery.drop("first")
    known = fed.ids()
    fed.step(2)
    assert delivery.deliver() == len(fed.ids())
    assert first.ids == known
    assert second.ids == fed.ids(), "a new sink gets what the outbox still holds"
    with pytest.raises(DefinitionError, match="unknown sink 'first'"):
        delivery.drop("first")
    delivery.close()


def test_the_sinks_of_a_view_go_with_it(feed):
    fed, got = feed(), Collected()
    delivery = fed.delivery(one=to_function(got), two=to_function(got))
    delivery.add("other", "w", LIVE, to_function(got))
    delivery.drop_view("v")
    assert list(delivery.positions) == ["other"]
    delivery.close()


def test_draining_waits_for_slow_sinks_and_not_for_failing_ones(feed):
    fed, slow, go = feed(), Collected(), threading.Event()
    fed.step(3)

    def wait(rows: list) -> None:
        assert go.wait(60)
        slow(rows)

    delivery = fed.delivery(
        {"patience": 0.01, "retry": (60.0, 60.0)}, slow=to_function(wait, batch=2), broken=to_function(Failing(1))
    )
    assert not delivery.drain(seconds=0.05)
    go.set()
    assert delivery.drain(seconds=60)
    assert slow.ids == fed.ids()
    assert list(delivery.failures) == ["broken"]
    delivery.close()


# Trimming


def test_the_outbox_keeps_what_a_sink_still_needs_and_the_newest_panes(feed):
    fed, broken, good = feed(), Failing(1), Collected()
    fed.step(10)
    everything = fed.ids()
    delivery = fed.delivery({"keep": 5, "retry": (0.0, 0.0)}, broken=to_function(broken), good=to_function(good))
    delivery.deliver()
    assert fed.ids() == everything, "one sink has nothing yet"
    delivery.deliver()
    assert fed.ids() == everything[-8:], "whole blocks are removed, of four panes each"
    assert broken.ids == good.ids == everything
    fed.step(5)
    delivery.deliver()
    assert 5 <= len(fed.ids()) < 5 + 8
    assert good.ids == list(range(1, fed.ids()[-1] + 1)), "trimming makes no gaps"
    delivery.close()


def test_without_sinks_nothing_waits(feed):
    fed = feed()
    fed.all()
    everything, trimmed = fed.ids(), []

    def trim(through: int) -> None:
        trimmed.append(through)
        fed.store.trim_outbox(through)

    delivery = fed.delivery({"keep": 20, "trim": trim})
    for _ in range(3):
        assert delivery.deliver() == 0
    assert fed.ids()[-20:] == everything[-20:]
    assert len(fed.ids()) < 20 + 8, "whole blocks are removed"
    assert trimmed == [everything[-21]], "what is trimmed already is not trimmed again"
    delivery.close()


def test_few_panes_are_not_worth_a_transaction(feed):
    fed, trimmed = feed(), []
    delivery = fed.delivery({"keep": 40, "trim": trimmed.append})
    while len(fed.ids()) < 40:
        fed.step()
        delivery.deliver()
    for _ in range(4):
        fed.step()
        delivery.deliver()
    assert all(after - before >= 4 for before, after in zip([0, *trimmed], trimmed, strict=False))
    assert trimmed
    delivery.close()


class Interrupting:
    """An outbox in which a sink is added, or another thread looks, while new blocks are read."""

    def __init__(self, outbox: Any, meanwhile: Callable[[], object]) -> None:
        self._outbox, self.other = outbox, threading.Thread(target=meanwhile)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    def new_blocks(self, *where: Any) -> Any:
        blocks = self._outbox.new_blocks(*where)
        self.other.start()
        self.other.join(0.2)  # it waits until this look is over
        return blocks


@pytest.mark.parametrize("what", ["a sink is added", "another thread looks"])
def test_panes_are_read_once_whatever_happens_while_new_ones_are_looked_for(feed, what):
    fed = feed()
    fed.step(2)
    reader = PaneReader(fed.store)
    reader.refresh({"v"})
    first = fed.ids()
    fed.step(2)
    changes = {"a sink is added": reader.forget, "another thread looks": lambda: reader.refresh({"v"})}
    reader._outbox = interrupting = Interrupting(fed.store, changes[what])
    reader.refresh({"v"})
    reader._outbox = fed.store
    interrupting.other.join()
    reader.refresh({"v"})
    assert fed.ids() > first
    assert reader.panes("v", 0, 1 << 30)[0]["id"].to_list() == fed.ids()


def test_a_sink_that_is_dropped_while_its_thread_begins_ends_after_it(feed, monkeypatch):
    fed, got, begins, dropped = feed(), Collected(), threading.Event(), []

    class Late(threading.Thread):
        def start(self) -> None:
            begins.set()
            dropping.start()
            dropping.join(0.2)  # it waits until this thread has begun
            super().start()

    delivery = fed.delivery(one=to_function(got))
    dropping = threading.Thread(target=lambda: dropped.append(delivery.drop("one")))
    fed.step(2)
    monkeypatch.setattr("penstock.sinks.delivery.threading.Thread", Late)
    delivery.start()
    monkeypatch.undo()
    dropping.join()
    assert begins.is_set()
    assert dropped == ["v"]
    assert delivery.positions == {}
    delivery.close()
