"""A standby takes over from a driver that is killed, and from one that hangs and wakes up again."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

import pytest

from tests.cluster.support import FILE, Driver, Scene, until

pytestmark = pytest.mark.xdist_group("cluster")
ROUNDS = 10 if os.environ.get("PENSTOCK_DEEP") == "1" else 1


def standby(scene: Scene) -> Driver:
    made = Driver(scene, "--master", "local[2]", "--standby", "--takeover-after", "3s")
    made.says("writes to")
    return made


def test_a_standby_takes_over_and_the_driver_before_wakes_up_again(scene: Callable[[int], Scene]):
    made, chance = scene(4 + 12 * ROUNDS), random.Random(3)
    made.write(4)
    now = Driver(made, "--master", "local[2]")
    made.commits(FILE)
    for _ in range(ROUNDS):
        now = taken_over(made, now, chance, signal.SIGKILL)
        assert made.drivers[-2].ends() == -signal.SIGKILL
        now = taken_over(made, now, chance, signal.SIGSTOP)
        before = made.drivers[-2]
        before.signal(signal.SIGCONT)
        made.write(2)
        if "in the middle of a transaction; killed it" in now.said():
            assert before.ends() == -signal.SIGKILL
        else:
            assert before.ends() == 1
            assert "error: another process has taken over the store" in before.said()
        made.commits(made.written)
    now.signal(signal.SIGTERM)
    assert now.ends() == 0, now.said()
    made.check()


def taken_over(made: Scene, now: Driver, chance: random.Random, number: int) -> Driver:
    """Another driver waits; the one that runs gets a signal in the middle of its work, and the other goes on."""
    other = standby(made)
    before = made.written
    made.write(3)
    some = before + chance.randrange(2 * FILE)
    until(lambda: made.events() >= some or not now.runs, "some of the work")
    now.signal(number)
    other.says("running '")
    made.write(2)
    made.commits(made.written)
    return other
