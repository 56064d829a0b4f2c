"""The views of player statistics, on the games that its processor makes of made-up events, without Spark."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.sources.generator import Chance
from penstock.testing import TestStream, process, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "player_statistics" / "app.py"
COLUMNS = ("player", "what", "weapon", "points", "at")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def games(example: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = np.arange(6_000)
    times = 1_700_000_000_000_000 + numbers * 100_000
    made = example["events"](numbers, times, Chance(numbers, 1))
    rows = list(zip(*(made[name].tolist() for name in COLUMNS), strict=True))
    script = TestStream(example["played"], clock=int(times[0])).add(*rows).watermark(int(times[-1]) + 600_000_000)
    return process(example["games"], script).rows


def table(example: dict[str, Any], games: list[dict[str, Any]], view: str) -> list[dict[str, object]]:
    stream = example["app"].streams["games"]
    rows = [{**dict.fromkeys(stream.schema.names), **game} for game in games]
    script = TestStream(stream, clock=games[-1]["at"]).add(*rows)
    return run(example["app"].views[view], script).table


def test_views_count_the_games(example: dict[str, Any], games: list[dict[str, Any]]) -> None:
    assert len(games) > 100
    levels = {row["level"]: row["games"] for row in table(example, games, "by_level")}
    assert levels == Counter(game["level"] for game in games)
    weapons = {row["weapon"]: row["games"] for row in table(example, games, "by_weapon")}
    assert weapons == Counter(game["weapon"] for game in games if game["weapon"] is not None)


def test_the_best_of_an_hour_have_most_points(example: dict[str, Any], games: list[dict[str, Any]]) -> None:
    for row in table(example, games, "best_of_the_hour"):
        start, end = row["window_start"], row["window_end"]
        points = sorted((game["points"] for game in games if start <= game["at"] < end), reverse=True)
        assert row["points"] == points[:10]
