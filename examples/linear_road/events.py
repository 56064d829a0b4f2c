"""Linear Road's log: cars report where they are each 30 seconds, and ask for their accounts.

    python examples/linear_road/events.py DIRECTORY [--minutes 30] [--cars 2000] [--expressways 1]

A small simulator with a seed. `cars` are on the road at any time; each enters at a ramp, drives at a nearly constant
speed that is the lower the busier a stretch is, and leaves at another ramp. Sometimes two or three stop at one place
for ten to twenty minutes. Some stop alone, some come back later, some vanish without leaving, and some are seen once
more after they have left. The files are Linear Road's own: fifteen numbers a line, in the order of time. A log of
several expressways is theirs merged: each has a seed of its own, and cars and requests with numbers of its own.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

COLUMNS = (
    "type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod", "day",
)  # fmt: skip
SCHEMA = ", ".join(f"{name} int" for name in COLUMNS)
HISTORY = "vid int, day int, xway int, toll int"
REPORT, BALANCE, EXPENDITURE = 0, 2, 3
ENTRY, EXIT = 0, 4  # lanes
EAST, WEST = 0, 1
SEGMENTS, FEET, EVERY, DAYS = 100, 5280, 30, 69
#: Feet that one mile an hour makes from one report to the next.
STEP = 44
#: How long a car is on the road, on average, in minutes: it is as full at the first report as it is later.
STAY = 13
Journeys = dict[str, np.ndarray]


@dataclass(frozen=True)
class Road:
    """One expressway. Cars enter and leave at the `ramps` segments around its middle, most of them eastward."""

    minutes: int = 30
    cars: int = 2_000
    ramps: int = SEGMENTS
    accidents: int = 4
    balances: float = 0.01
    expenditures: float = 0.001
    seed: int = 0
    xway: int = 0
    first_car: int = 1
    first_request: int = 1

    def events(self) -> pl.DataFrame:
        """The log: reports and requests in the order of time."""
        chance = np.random.default_rng(self.seed)
        first = self._journeys(chance)
        parts = [self._reports(chance, first)]
        back = self._back(chance, parts[0])
        parts += [self._reports(chance, back), self._reports(chance, self._accidents(chance, len(first["vid"])))]
        reports = pl.concat(parts).filter(pl.col("time").is_between(0, 60 * self.minutes - 1))
        reports = reports.with_columns(vid=pl.col("vid").rank("dense").cast(pl.Int32) + self.first_car - 1)
        log = pl.concat([reports, self._requests(chance, reports)])
        return log.select(COLUMNS).sort("time", maintain_order=True)

    def history(self, last_car: int) -> pl.DataFrame:
        """What the cars up to this number have paid on each of the last 69 days."""
        chance = np.random.default_rng(self.seed + 1)
        cars = np.arange(self.first_car, last_car + 1)
        vid, day = np.repeat(cars, DAYS), np.tile(np.arange(1, DAYS + 1), len(cars))
        toll = chance.integers(0, 100, vid.size)
        return pl.DataFrame({"vid": vid, "day": day, "xway": np.full(vid.size, self.xway), "toll": toll})

    # journeys

    def _journeys(self, chance: np.random.Generator) -> Journeys:
        """As many as keep the road full: when and where each enters, how fast and how far it goes, where it stops."""
        before = 3 * STAY
        many = round(self.cars * (self.minutes + before) / STAY)
        journeys = self._drawn(chance, chance.integers(-before * 60, self.minutes * 60, many))
        journeys["vid"] = np.arange(1, many + 1)
        alone = chance.random(many) < 0.02
        journeys["stop_for"] = np.where(alone, chance.integers(2, 9, many), 0)
        return journeys

    def _drawn(self, chance: np.random.Generator, begin: np.ndarray) -> Journeys:
        many = len(begin)
        way = np.where(chance.random(many) < 0.7, EAST, WEST)
        entry = (SEGMENTS - self.ramps) // 2 + chance.triangular(0, 0.4 * self.ramps, self.ramps, many).astype(int)
        room = np.where(way == EAST, SEGMENTS - entry, entry + 1)
        miles = np.minimum(1 + chance.exponential(min(6.0, self.ramps / 2), many), room - 0.5)
        speed = np.clip(35 + 11 * np.cos(begin / 300 + entry / 6) + chance.normal(0, 4, many), 10, 80)
        legs = 2 + (miles * FEET / (speed * STEP)).astype(int)
        return {
            "begin": begin, "dir": way, "entry": entry, "speed": speed, "legs": legs,
            "unsteady": np.full(many, 1.5), "beyond": chance.integers(0, 400, many),
            "lane": chance.integers(1, 4, many), "stop_at": chance.integers(0, legs - 1),
        }  # fmt: skip

    def _accidents(self, chance: np.random.Generator, known: int) -> Journeys:
        """Two or three cars on the same way, seconds after each other, that stop at one place for 10 to 20 minutes."""
        pairs = self._drawn(chance, chance.integers(-STAY * 60, max(1, (self.minutes - 10) * 60), self.accidents))
        cars = np.where(chance.random(self.accidents) < 0.7, 2, 3)
        journeys = {name: np.repeat(values, cars) for name, values in pairs.items()}
        many = int(cars.sum())
        journeys["begin"] = journeys["begin"] + chance.integers(0, 25, many)
        journeys["unsteady"] = np.zeros(many)
        journeys["vid"] = known + 1 + np.arange(many)
        journeys["stop_at"] = np.maximum(1, journeys["stop_at"])
        journeys["stop_for"] = chance.integers(20, 41, many)
        return journeys

    def _back(self, chance: np.random.Generator, first_reports: pl.DataFrame) -> Journeys:
        """Cars that come back: most of them minutes later, a few so soon that it is not a new journey."""
        ended = first_reports.group_by("vid").agg(pl.col("time").max()).sort("vid")
        again = chance.random(ended.height)
        ended = ended.filter(pl.Series(again < 0.15))
        soon = again[again < 0.15] < 0.01
        gap = np.where(soon, 2 * EVERY, chance.integers(61, 900, ended.height))
        journeys = self._drawn(chance, ended["time"].to_numpy() + gap)
        return {**journeys, "vid": ended["vid"].to_numpy(), "stop_for": np.zeros(ended.height, dtype=int)}

    # reports

    def _reports(self, chance: np.random.Generator, journeys: Journeys) -> pl.DataFrame:
        """What the cars tell on their way: in the entry lane first, in a travel lane, in the exit lane last."""
        reports = journeys["legs"] + journeys["stop_for"]
        of = np.repeat(np.arange(len(reports)), reports)
        leg = np.arange(len(of)) - np.repeat(np.cumsum(reports) - reports, reports)
        car = {name: values[of] for name, values in journeys.items()}
        speed = np.clip(car["speed"] + chance.normal(0, 1, len(of)) * car["unsteady"], 5, 100).astype(int)
        stands = (leg > car["stop_at"]) & (leg <= car["stop_at"] + car["stop_for"])
        speed[stands] = 0
        feet = np.cumsum(np.where(leg == 0, 0, speed * STEP))
        feet += car["beyond"] - np.repeat(feet[leg == 0], reports)
        pos = np.where(car["dir"] == EAST, car["entry"] * FEET + feet, (car["entry"] + 1) * FEET - 1 - feet)
        lane = np.where(leg == 0, ENTRY, np.where(leg == reports[of] - 1, EXIT, car["lane"]))
        time = car["begin"] + EVERY * leg
        reported = rows(type=REPORT, time=time, vid=car["vid"], spd=speed, xway=self.xway, lane=lane, dir=car["dir"],
                     seg=pos // FEET, pos=pos)  # fmt: skip
        reported = reported.filter(pl.col("seg").is_between(0, SEGMENTS - 1))
        return self._strayed(chance, reported)

    def _strayed(self, chance: np.random.Generator, reports: pl.DataFrame) -> pl.DataFrame:
        """Sometimes a car vanishes without leaving, or is seen once more after it has left."""
        leaves = pl.col("lane") == EXIT
        what = pl.Series(chance.random(reports.height))
        stray = reports.filter(leaves & (what > 0.97)).with_columns(time=pl.col("time") + EVERY, lane=2)
        return pl.concat([reports.filter(~leaves | (what > 0.03)), stray.select(reports.columns).cast(reports.schema)])

    # requests

    def _requests(self, chance: np.random.Generator, reports: pl.DataFrame) -> pl.DataFrame:
        """Cars that have just reported ask what they owe, or what they paid on a day."""
        balances, expenditures = (round(reports.height * share) for share in (self.balances, self.expenditures))
        many = balances + expenditures
        asking = reports[chance.integers(0, reports.height, many)]
        kind = np.repeat([BALANCE, EXPENDITURE], [balances, expenditures])
        later = asking["time"].to_numpy() + chance.integers(0, EVERY, many)
        day = np.where(kind == BALANCE, -1, chance.integers(1, DAYS + 1, many))
        xway = np.where(kind == BALANCE, -1, self.xway)
        return rows(type=kind, time=np.minimum(later, 60 * self.minutes - 1), vid=asking["vid"].to_numpy(),
                    qid=self.first_request + np.arange(many), xway=xway, day=day)  # fmt: skip


def rows(**columns: np.ndarray | int) -> pl.DataFrame:
    """Rows of the log: columns that are not given are -1."""
    size = max(np.size(values) for values in columns.values())
    full = {name: np.broadcast_to(np.asarray(columns.get(name, -1), dtype=np.int32), size) for name in COLUMNS}
    return pl.DataFrame(full)


def last_car(log: pl.DataFrame) -> int:
    """The highest number of a car."""
    return int(log["vid"].to_numpy().max())


def expressways(road: Road) -> Iterator[tuple[Road, pl.DataFrame]]:
    """A road with its log, then others like it, as many as are taken: no car or request has a number of another road.

    Each has two seeds, for its log and for its historical tolls.
    """
    while True:
        log = road.events()
        yield road, log
        requests = int(log["qid"].to_numpy().max())
        road = replace(
            road, seed=road.seed + 2, xway=road.xway + 1, first_car=last_car(log) + 1,
            first_request=max(road.first_request, requests + 1),
        )  # fmt: skip


def merged(logs: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One log of several, in the order of time."""
    return pl.concat(logs).sort("time", maintain_order=True)


def write(directory: Path, road: Road, count: int = 1, files: int = 10) -> pl.DataFrame:
    """Writes the log of several expressways and the historical tolls as files of CSV; returns the log."""
    for name in ("log", "history"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    logs = []
    for each, log in islice(expressways(road), count):
        tolls = directory / "history" / f"tolls-{each.xway}.csv"
        each.history(last_car(log)).write_csv(tolls, include_header=False)
        logs.append(log)
    events = merged(logs)
    for number, part in enumerate(cut(events, files)):
        path = directory / "log" / f"{number:04}.csv"
        part.write_csv(path, include_header=False)
        os.utime(path, (number, number))  # files are read in the order of their times
    return events


def cut(events: pl.DataFrame, files: int) -> Iterator[pl.DataFrame]:
    """The log in parts of nearly the same size."""
    size = -(-events.height // files)
    yield from (events.slice(first, size) for first in range(0, events.height, size))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes Linear Road's log, and the historical tolls.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--cars", type=int, default=2_000, help="how many are on an expressway at any time")
    parser.add_argument("--expressways", type=int, default=1)
    parser.add_argument("--ramps", type=int, default=20, help="how many segments have ramps")
    parser.add_argument("--accidents", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=10)
    options = parser.parse_args()
    road = Road(options.minutes, options.cars, options.ramps, options.accidents, seed=options.seed)
    print(f"{write(options.directory, road, options.expressways, options.files).height:,} events")


if __name__ == "__main__":
    main()
