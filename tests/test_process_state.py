"""What a process keeps between tasks has a bound, and can be let go."""

from __future__ import annotations

import threading

from penstock.kernel.tables import TableVersions
from penstock.process_state import ProcessState, RecentlyUsed
from penstock.runtime.derived.topologies.tasks import Crews
from penstock.topology.stage import Crew


class Thing:
    """Something that is closed once."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_there_is_one_object_of_a_class_whoever_asks_first():
    process, seen, ready = ProcessState(), [], threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        seen.append(process.of(Thing))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, seen))) == 1
    assert process.of(TableVersions) is process.of(TableVersions)


def test_a_reset_closes_what_there_is_and_begins_anew():
    process = ProcessState()
    thing = process.of(Thing)
    process.reset()
    process.reset()
    assert thing.closed == 1
    assert process.of(Thing) is not thing


def test_the_value_that_was_not_used_for_longest_goes_first():
    dropped: list[str] = []
    recent: RecentlyUsed[int, str] = RecentlyUsed(2, dropped.append)
    recent.put(1, "a")
    recent.put(2, "b")
    assert recent.get(1) == "a"
    recent.put(3, "c")
    recent.put(1, "d")
    assert (recent.get(2), recent.get(1), dropped) == (None, "d", ["b", "a"])
    assert recent.made(3, str) == "c"
    recent.clear()
    assert sorted(dropped) == ["a", "b", "c", "d"]


def test_components_of_old_runs_are_dismissed(monkeypatch):
    dismissed: list[Crew] = []
    monkeypatch.setattr(Crew, "dismiss", lambda crew: dismissed.append(crew))
    process = ProcessState()
    crews = [process.of(Crews).made(f"run {number}", lambda _: Crew()) for number in range(10)]
    assert 0 < len(dismissed) < len(crews)
    assert dismissed == crews[: len(dismissed)]
    process.reset()
    assert set(dismissed) == set(crews)
