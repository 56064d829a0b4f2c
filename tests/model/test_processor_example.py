"""The example of player statistics, without Spark: its games, its suspects, and the events that it makes up."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.sources.generator import Chance
from penstock.testing import TestStream, process

EXAMPLE = Path(__file__).parents[2] / "examples" / "player_statistics" / "app.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def shot(second: int, what: str = "hit", points: int = 10, weapon: str = "axe") -> tuple:
    return (7, what, weapon, points, f"12:{second // 60:02}:{second % 60:02}")


def test_a_game_is_over_two_minutes_after_its_last_event_or_when_the_player_leaves(example):
    script = (
        TestStream(example["played"])
        .add(shot(0), shot(30, "kill", 100), shot(20, "kill", 100, "bow"), shot(40, "kill", 100, "bow"))
        .watermark("12:02:39")
        .add(shot(159))
        .watermark("12:05:00")
        .add(shot(310, "leave", 0))
    )
    rows = process(example["games"], script).rows
    assert [(row["kills"], row["points"], row["weapon"], f"{row['at']:%M:%S}") for row in rows] == [
        (3, 320, "bow", "04:39"),
        (0, 0, None, "05:10"),
    ]


def test_an_event_of_another_game_ends_the_one_before_it(example):
    script = TestStream(example["played"]).add(shot(0), shot(600), shot(601)).watermark("13:00:00")
    rows = process(example["games"], script).rows
    assert [(row["points"], f"{row['at']:%H:%M:%S}") for row in rows] == [(10, "12:02:00"), (20, "12:12:01")]


def test_levels_grow_with_all_games_of_a_player_and_suspects_stand_apart(example):
    events = [shot(300 * n, "leave", 6_000) for n in range(4)]
    found = process(example["games"], TestStream(example["played"]).add(*events))
    assert [row["level"] for row in found.rows] == [1, 2, 2, 3]
    assert len(found.sides["suspects"]) == 4
    assert found.state[7] == {"career": 24_000, "level": 3}


def test_the_events_that_it_makes_up_are_games(example):
    numbers = np.arange(20_000)
    times = 1_700_000_000_000_000 + numbers * 200
    made = example["events"](numbers, times, Chance(numbers, 1))
    rows = list(zip(*(made[name].tolist() for name in ("player", "what", "weapon", "points", "at")), strict=True))
    found = process(example["games"], TestStream(example["played"], clock=int(times[0])).add(*rows))
    assert not found.dead
    assert len(found.state) > 1_000
