"""Linear Road: every toll, alert, balance and expenditure against a naive recomputation of the whole log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import penstock as ps
from examples.linear_road.app import Parts, linear_road
from examples.linear_road.events import (
    COLUMNS,
    EXIT,
    EXPENDITURE,
    FEET,
    REPORT,
    SCHEMA,
    Road,
    cut,
    expressways,
    last_car,
    merged,
    rows,
    write,
)
from examples.linear_road.oracle import Answers, answers
from examples.linear_road.without_spark import AppRun
from penstock.runtime.run import Run
from penstock.store.base import REFUSALS
from penstock.testing import TestStream, run
from tests.strategies import DEEP

pytestmark = pytest.mark.xdist_group("road")  # they share what is made up, which takes a while

ROAD = Road(minutes=8, cars=700, ramps=3, accidents=2, balances=0.05, expenditures=0.01)
ANSWERS = ("tolls", "alerts", "balances", "expenditures")


def road(seed: int) -> Road:
    return Road(ROAD.minutes, ROAD.cars, ROAD.ramps, ROAD.accidents, ROAD.balances, ROAD.expenditures, seed)


def expected(made: Road, log: pl.DataFrame) -> Answers:
    return answers(log.to_dicts(), made.history(last_car(log)).to_dicts())


def compare(found: dict[str, list[tuple[int, ...]]], wanted: Answers) -> None:
    for name, mine in found.items():
        assert sorted(mine) == sorted(getattr(wanted, name)), name


def cut_at_random(log: pl.DataFrame, seed: int) -> Iterator[pl.DataFrame]:
    """Epochs of a few events and of several minutes; some end in the middle of a second, some are in disorder."""
    chance = np.random.default_rng(seed)
    places = np.unique(chance.choice([0, log.height, *chance.integers(0, log.height, 12)], 12))
    for first, last in pairwise([0, *places.tolist(), log.height]):
        yield log[first:last].sample(fraction=1.0, shuffle=bool(chance.random() < 0.5), seed=seed)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return linear_road(tmp_path_factory.mktemp("road"))


# without Spark


@pytest.mark.parametrize("seed", range(30 if DEEP else 2))
def test_all_answers_are_those_of_the_oracle_however_the_log_is_cut(parts: Parts, seed: int) -> None:
    log = road(seed).events()
    wanted = expected(road(seed), log)
    assert any(toll for *_, toll in wanted.tolls)
    assert wanted.alerts
    assert any(balance for *_, balance in wanted.balances)
    compare(AppRun(parts, cut_at_random(log, seed)).answers, wanted)


def test_epochs_of_a_second_and_one_of_all_give_the_same(parts: Parts) -> None:
    log = Road(minutes=4, cars=300, ramps=2, accidents=1, balances=0.05, seed=7).events()
    wanted = answers(log.to_dicts(), [])
    by_second = [part for _, part in sorted(log.partition_by("time", as_dict=True).items())]
    compare(AppRun(parts, by_second).answers, wanted)
    compare(AppRun(parts, [log]).answers, wanted)


def test_answers_for_two_expressways_are_those_of_each_by_itself(parts: Parts) -> None:
    roads = list(islice(expressways(Road(minutes=6, cars=500, ramps=3, accidents=2, balances=0.05, seed=3)), 2))
    log = merged(log for _, log in roads)
    each = [answers(log.to_dicts(), []) for _, log in roads]
    both = answers(log.to_dicts(), [])
    found = AppRun(parts, cut_at_random(log, 3)).answers
    compare(found, both)
    for name, rows_of_both in found.items():
        assert all(getattr(one, name) for one in each), name
        assert sorted(rows_of_both) == sorted(getattr(each[0], name) + getattr(each[1], name)), name
    assert all(any(toll for *_, toll in one.tolls) for one in each)
    assert {xway for _, xway, *_ in found["alerts"]} == {0, 1}


def test_expenditures_come_from_the_table_of_historical_tolls(parts: Parts) -> None:
    log = road(0).events()
    asked = log.filter(pl.col("type") == EXPENDITURE)
    history = road(0).history(last_car(log)).join(asked, on="vid", how="semi")
    wanted = sorted(answers(asked.to_dicts(), history.to_dicts()).expenditures)
    script = TestStream(parts.log).table(parts.history, *history.rows())
    for epoch in cut(asked, 3):
        script = script.add(*epoch.to_dicts())
    view = parts.expenditures.group_by("time", "qid").agg(toll=ps.max("toll"))
    found = [(row["time"], row["qid"], row["toll"]) for row in run(view, script).table]
    assert len(wanted) > 20
    assert sorted(found) == wanted  # type: ignore[type-var]


def test_statistics_of_segments_are_those_of_the_oracle(parts: Parts) -> None:
    log = Road(minutes=4, cars=400, ramps=3, seed=1).events()
    wanted = answers(log.to_dicts(), []).statistics
    script = TestStream(parts.cars.stream)
    for commit in AppRun(parts, cut(log, 4)).cars.commits:
        script = script.add(*commit)
    found = {}
    for row in run(parts.app.views["statistics"], script).table:
        begin = row["window_start"]
        minute = begin.hour * 60 + begin.minute + 1  # type: ignore[attr-defined]
        found[row["xway"], row["dir"], row["seg"], minute] = row["cars"]
    assert found == {where: number for where, (number, _) in wanted.items()}


# the rules, one by one


def report(vid: int, time: int, pos: int, lane: int = 1, spd: int = 30, way: int = 0) -> dict[str, int]:
    told = rows(type=REPORT, time=time, vid=vid, spd=spd, xway=0, lane=lane, dir=way, seg=pos // FEET, pos=pos)
    return told.row(0, named=True)


def asked(vid: int, time: int, qid: int) -> dict[str, int]:
    return rows(type=2, time=time, vid=vid, qid=qid).row(0, named=True)


def crowd(time: int, seg: int, cars: int = 60) -> list[dict[str, int]]:
    """Cars that crawl through a segment and are not seen again."""
    return [report(1_000 + time * 100 + car, time, seg * FEET + car, spd=20) for car in range(cars)]


def answered(parts: Parts, *events: dict[str, int]) -> tuple[dict[str, list[tuple[int, ...]]], Answers]:
    log = pl.DataFrame(list(events), schema=dict.fromkeys(COLUMNS, pl.Int32)).sort("time", maintain_order=True)
    found, wanted = AppRun(parts, cut(log, 3)).answers, answers(log.to_dicts(), [])
    compare(found, wanted)
    return found, wanted


def test_a_toll_is_charged_in_the_next_segment_and_not_when_the_car_leaves(parts: Parts) -> None:
    stay = [report(1, 60, 5 * FEET, lane=0), report(1, 90, 6 * FEET), report(1, 120, 7 * FEET, lane=EXIT)]
    back = [report(1, 200, 8 * FEET, lane=0), report(1, 230, 9 * FEET)]
    asks = [asked(1, time, time) for time in (60, 61, 90, 91, 119, 150, 201, 231)]
    found, _ = answered(parts, *crowd(10, 5), *crowd(10, 6), *stay, *back, *asks)
    mine = sorted((time, toll) for vid, time, _, toll in found["tolls"] if vid == 1)
    assert mine == [(60, 200), (90, 200), (200, 0), (230, 0)]
    balances = {time: balance for time, _, balance in found["balances"]}
    assert balances == {60: 0, 61: 0, 90: 0, 91: 200, 119: 200, 150: 200, 201: 200, 231: 200}


def test_cars_are_warned_from_the_minute_after_an_accident_until_the_minute_in_which_it_clears(parts: Parts) -> None:
    stand = [report(vid, time, 50 * FEET) for vid in (1, 2) for time in range(0, 301, 30)]
    moves = [report(1, 330, 50 * FEET + 900), report(2, 330, 50 * FEET)]
    passing = [report(100 + time, time, 46 * FEET) for time in range(5, 600, 30)]
    too_far = [report(700 + time, time, 45 * FEET) for time in range(5, 600, 30)]
    behind = [report(1_400 + time, time, 51 * FEET) for time in range(5, 600, 30)]
    found, _ = answered(parts, *stand, *moves, *passing, *too_far, *behind)
    warned = [time for time, _, seg, _, vid in sorted(found["alerts"]) if vid > 2 and seg == 50]
    assert warned == [time for time in range(5, 600, 30) if 120 <= time < 360]


def test_one_car_that_stands_and_two_in_different_lanes_are_no_accident(parts: Parts) -> None:
    alone = [report(1, time, 20 * FEET) for time in range(0, 301, 30)]
    lanes = [report(vid, time, 30 * FEET, lane=vid) for vid in (2, 3) for time in range(0, 301, 30)]
    short = [report(vid, time, 40 * FEET) for vid in (4, 5) for time in range(0, 90, 30)]
    passing = [report(100 + seg, 310, seg * FEET) for seg in (19, 20, 29, 30, 39, 40)]
    found, _ = answered(parts, *alone, *lanes, *short, *passing)
    assert not found["alerts"]


def test_a_car_that_has_left_is_noise_until_it_enters_again(parts: Parts) -> None:
    leaves = [report(1, 0, 5 * FEET, lane=0), report(1, 30, 6 * FEET, lane=EXIT), report(1, 60, 7 * FEET)]
    soon = [report(1, 90, 8 * FEET, lane=0), report(1, 120, 9 * FEET, lane=EXIT)]
    later = [report(1, 181, 9 * FEET, lane=0)]
    found, _ = answered(parts, *leaves, *soon, *later)
    assert sorted(time for _, time, *_ in found["tolls"]) == [0, 90, 181]


def test_no_speed_is_the_average_of_no_reports_and_halves_go_up(parts: Parts) -> None:
    slow = [report(1, 0, 5 * FEET, spd=20), report(2, 0, 5 * FEET, spd=21), report(3, 70, 5 * FEET), report(4, 71, 0)]
    found, _ = answered(parts, *slow)
    assert {vid: lav for vid, _, lav, _ in found["tolls"]} == {1: 0, 2: 0, 3: 21, 4: 0}


# the simulator


def test_the_log_depends_on_its_seed_alone_and_is_in_the_order_of_time() -> None:
    log = road(0).events()
    assert log.equals(road(0).events())
    assert not log.equals(road(1).events())
    assert log["time"].is_sorted()
    assert log.columns == [one.split()[0] for one in SCHEMA.split(", ")]
    reports = log.filter(pl.col("type") == REPORT)
    assert reports.select("time", "vid").is_unique().all()
    assert reports.select((pl.col("pos") // FEET == pl.col("seg")).all()).item()
    assert set(reports["lane"]) == {0, 1, 2, 3, 4}


def test_expressways_have_seeds_cars_and_requests_of_their_own() -> None:
    roads = list(islice(expressways(road(0)), 3))
    assert roads[0][1].equals(road(0).events())
    log = merged(log for _, log in roads)
    assert log["time"].is_sorted()
    assert set(log.filter(pl.col("type") != 2)["xway"]) == {0, 1, 2}
    for one, other in pairwise(log for _, log in roads):
        assert one["vid"].to_numpy().max() < other["vid"].to_numpy().min()
        assert one["qid"].to_numpy().max() < other.filter(pl.col("qid") >= 0)["qid"].to_numpy().min()
        assert not one.select("time", "seg").equals(other.select("time", "seg"))
    for each, log in roads:
        history = each.history(last_car(log))
        assert set(history["vid"]) == set(log["vid"])
        assert set(history["xway"]) == {each.xway}


# on Spark


def delivered(folder: Path, name: str) -> list[tuple[int, ...]]:
    lines = [line for file in sorted((folder / name).glob("*.jsonl")) for line in file.open()]
    return [tuple(json.loads(line).values())[:-1] for line in lines]  # the last one is the number of the pane


def all_delivered(running: Run) -> bool:
    newest = running.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
    return all(at == newest for at in running.delivery.positions.values())


@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not DEEP, reason="for the deep run; without Spark the same is compared above")
def test_on_spark_all_answers_are_those_of_the_oracle(spark: object, tmp_path: Path) -> None:
    wanted = expected(ROAD, write(tmp_path / "made", ROAD, files=3))
    (tmp_path / "log").mkdir()
    (tmp_path / "made" / "history").rename(tmp_path / "history")
    made = linear_road(tmp_path)
    for name, flow in made.answers.items():
        made.app.sink(flow, ps.to_jsonl(tmp_path / "out" / name), name=name)
    running: Run = made.app.start(tmp_path / "state", spark=spark)
    try:
        for file in sorted((tmp_path / "made" / "log").iterdir()):
            file.rename(tmp_path / "log" / file.name)
            running.catch_up()
        while not all_delivered(running):
            running.wait(0.1)
        found = {name: delivered(tmp_path / "out", name) for name in ANSWERS}
        told = max(time for _, time, *_ in found["tolls"])  # up to there time has passed for balances
        wanted.balances = [balance for balance in wanted.balances if balance[0] <= told]
        assert len(wanted.balances) > 200
        compare(found, wanted)
        counters = running.store.counters()
        assert not any(counters.get(f"{name}.{kind}", 0) for name in running.streams for kind in REFUSALS)
    finally:
        running.stop()
