"""The recommender on its made-up ratings, without Spark: tastes change, and only the live model follows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.app import App
from penstock.learning.played import LearningRun
from penstock.testing import TestStream, learn, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "recommender"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE / "ratings.py"))


@pytest.fixture(scope="module")
def app() -> App:
    return runpy.run_path(str(EXAMPLE / "app.py"))["app"]


@pytest.fixture(scope="module")
def learned(app: App, made: dict[str, Any]) -> dict[str, LearningRun]:
    script = TestStream(app.streams["ratings"])
    for _, rows in made["files"](made["ratings"](a_day=500)):
        script = script.add(*rows.rows())
    return {name: learn(app.streams[name], script) for name in ("live", "frozen")}


def errors(app: App, name: str, found: LearningRun) -> list[float]:
    """The prequential error day by day, by the app's own view over the model's stream."""
    script = TestStream(app.streams[name]).add(*found.frame.rows())
    table = run(app.views[f"{name}_error"], script).table
    return [float(str(row["error"])) for row in sorted(table, key=lambda row: str(row["window_start"]))]


def test_after_a_change_of_taste_only_the_live_model_is_right_again(
    app: App, made: dict[str, Any], learned: dict[str, LearningRun]
) -> None:
    live, frozen = (errors(app, name, learned[name]) for name in ("live", "frozen"))
    change, days = made["CHANGE"], made["DAYS"]
    assert len(live) == len(frozen) == days
    assert live[:8] == frozen[:8], "until then they have learned the same"
    before, after = slice(9, change), slice(days - 3, days)
    known = sum(live[before]) / len(live[before])
    assert sum(frozen[before]) / len(frozen[before]) < 1.5 * known
    assert live[0] > 1.5 * known, "it has learned"
    assert live[change] > 3 * known, "nobody knows of it in advance"
    assert sum(frozen[after]) > 5 * sum(live[after])
    assert sum(live[after]) / 3 < 2 * known


def test_the_live_model_has_learned_everything_and_the_other_what_it_should(learned: dict[str, LearningRun]) -> None:
    live, frozen = learned["live"], learned["frozen"]
    assert not live.dead
    assert not frozen.dead
    assert live.model()["rows"][0] == live.frame.height == frozen.frame.height
    assert frozen.model()["rows"][0] == frozen.frame.filter(pl.col("at").dt.day() < 9).height
