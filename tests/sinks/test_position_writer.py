"""Positions of sinks that are done at the same time go into one transaction, and fail together."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from penstock.sinks.position_writer import PositionWriter


def test_sinks_that_wait_for_a_transaction_share_the_next_one_and_its_error():
    entered, go, written = threading.Event(), threading.Event(), list[dict[str, int]]()

    def write(positions: Mapping[str, int], deliveries: object) -> None:
        written.append(dict(positions))
        entered.set()
        assert go.wait(60)
        if len(positions) > 1:
            raise OSError("no room")

    writer, failed = PositionWriter(write), list[str]()

    def save(sink: str, position: int) -> None:
        try:
            writer.save(sink, position)
        except OSError:
            failed.append(sink)

    threads = [threading.Thread(target=save, args=(f"s{number}", number)) for number in range(3)]
    threads[0].start()
    assert entered.wait(60)
    for thread in threads[1:]:
        thread.start()
    end = time.monotonic() + 60
    while len(writer._group.positions) < 2:
        assert time.monotonic() < end
    go.set()
    for thread in threads:
        thread.join()
    assert written == [{"s0": 0}, {"s1": 1, "s2": 2}]
    assert sorted(failed) == ["s1", "s2"]
    writer.save("s1", 3)
    assert written[-1] == {"s1": 3}
