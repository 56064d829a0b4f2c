"""Time that passes without events, group by group. Without Spark."""

from __future__ import annotations

import threading
from typing import Any

import penstock as ps
from penstock.store.connection import Busy
from tests.runtime.parts import MINUTE, Parts, in_thread, stream

S, T = stream("s"), stream("t")


def windowed(of: ps.Stream) -> ps.View:
    return of.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count()).trigger(ps.each())


def test_a_tick_that_fails_ends_the_run(tmp_path):
    parts = Parts(tmp_path, [S], {"counts": windowed(S)})
    try:
        error = ZeroDivisionError()

        def fails(*_: Any) -> None:
            raise error

        parts.groups.of("s").engine.tick = fails  # type: ignore[method-assign]
        parts.ticker.start()
        parts.ticker.join()
        assert parts.lifecycle.failure is error
    finally:
        parts.close()


def test_a_tick_that_fails_with_a_transient_fault_is_tried_again(tmp_path):
    parts = Parts(tmp_path, [S], {"counts": windowed(S)})
    try:
        engine, ticked, failed = parts.groups.of("s").engine, threading.Event(), threading.Event()

        def tick(*_: Any) -> None:
            if not failed.is_set():
                failed.set()
                raise Busy("the store is locked")
            ticked.set()

        engine.tick = tick  # type: ignore[method-assign]
        parts.ticker.start()
        assert failed.wait(60)
        parts.seconds.now += 10.0
        assert ticked.wait(60)
        assert parts.lifecycle.failure is None
    finally:
        parts.close()


def test_a_busy_group_delays_no_other_groups_ticks(tmp_path):
    parts = Parts(tmp_path, [S, T], {"of_s": windowed(S), "of_t": windowed(T)})
    try:
        ticked = threading.Event()
        parts.groups.of("t").engine.tick = lambda *_: ticked.set()  # type: ignore[method-assign]
        parts.ticker.start()
        with parts.groups.of("s").lock:
            ticked.wait(60)
            ticked.clear()
            assert ticked.wait(60)
    finally:
        parts.close()


def test_a_group_that_is_busy_all_the_time_gets_its_tick(tmp_path):
    """Epochs follow each other without a pause: the tick takes its turn between two of them."""
    parts = Parts(tmp_path, [S], {"counts": windowed(S)})
    try:
        ticked, numbers = threading.Event(), iter(range(100_000))
        engine = parts.groups.of("s").engine
        tick = engine.tick

        def counted(*arguments: Any) -> Any:
            ticked.set()
            return tick(*arguments)

        engine.tick = counted  # type: ignore[method-assign]
        parts.ticker.start()

        def busy() -> None:
            while not ticked.is_set():
                parts.epoch("s", next(numbers), ("a", 1))

        working = in_thread(busy)
        assert ticked.wait(60)
        working.join()
    finally:
        parts.close()


def test_a_tick_commits_what_time_has_made_due(tmp_path):
    idle = ps.stream("s", S.log, schema=S.schema, event_time="at", watermark=ps.bounded("0 seconds", idle="1 minute"))
    parts = Parts(tmp_path, [idle], {"counts": windowed(idle)})
    try:
        parts.epoch("s", 0, ("a", 1))
        parts.running("s").wait()
        assert parts.store.query("SELECT final FROM counts").rows() == [(0,)]
        parts.now += 10 * MINUTE
        parts.ticker.tick(parts.groups.of("s"))
        assert parts.store.query("SELECT final FROM counts").rows() == [(1,)]
    finally:
        parts.close()
