"""Sinks that fail or are slow: they are tried again, others go on, nothing is lost, and the outbox is trimmed."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.errors import DefinitionError
from penstock.sinks import Delivery, read_jsonl, to_function, to_jsonl
from penstock.sinks import delivery as module
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

    def dies(sink: str, position: int) -> None:
        raise RuntimeError("killed")

    dying = fed.delivery({"commit_position": dies}, f=to_function(got, batch=3))
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

    def commit_position(sink: str, position: int) -> None:
        with lock:
            fed.store.delivered(sink, position)

    delivery = fed.delivery({"commit_position": commit_position}, out=to_jsonl(tmp_path / "out"))
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


def test_panes_of_other_views_are_passed_over(feed, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)
    fed, got = feed(), Collected()
    fed.step(6)
    nothing = Collected()
    delivery = Delivery(
        fed.store, {"mine": ("v", LIVE, to_function(got, batch=3)), "other": ("w", LIVE, to_function(nothing))},
        commit_position=fed.store.delivered, trim=fed.store.trim_outbox, patience=60,
    )  # fmt: skip
    assert delivery.deliver() == len(fed.ids())
    assert (got.ids, nothing.rows) == (fed.ids(), [])
    assert delivery.positions == {"mine": fed.ids()[-1], "other": fed.ids()[-1]}
    assert fed.store.position("other") > 0, "also saved, now and then, where there is nothing to deliver"
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
    with pytest.raises(DefinitionError, match="unknown sink «first»"):
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
    assert fed.ids() == everything[-5:]
    assert broken.ids == good.ids == everything
    fed.step(5)
    delivery.deliver()
    assert len(fed.ids()) == 5
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
    assert fed.ids() == everything[-20:]
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
