"""What Linear Road's answers must be, computed once over the whole log, in plain Python and as naively as can be.

It knows nothing of epochs, watermarks or state: it looks at all reports of a car, at all reports of a segment, at all
times at which cars stood somewhere, and answers each question by going through them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any

Event = Mapping[str, int]
Place = tuple[int, int, int, int, int]  # xway, dir, seg, lane, pos
Row = tuple[int, ...]


def minute(time: int) -> int:
    return time // 60 + 1


@dataclass
class Answers:
    """Tolls: vid, time, LAV, toll. Alerts: time, xway, segment, dir, vid. Balances: time, qid, balance. Expenditures:
    time, qid, toll. Statistics: cars and LAV by xway, dir, segment and minute."""

    tolls: list[Row] = field(default_factory=list)
    alerts: list[Row] = field(default_factory=list)
    balances: list[Row] = field(default_factory=list)
    expenditures: list[Row] = field(default_factory=list)
    statistics: dict[Row, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Report:
    """A report that counts: where the car was, whether it has just entered a segment, and whether a journey begins."""

    time: int
    vid: int
    speed: int
    place: Place
    enters: bool
    begins: bool

    @property
    def segment(self) -> tuple[int, int, int]:
        return self.place[:3]


def reports_of(events: Iterable[Event]) -> list[Report]:
    """The reports of one car that count, in the order of time."""
    reports: list[Report] = []
    for e in sorted(events, key=lambda e: e["time"]):
        place = (e["xway"], e["dir"], e["seg"], e["lane"], e["pos"])
        if not reports:
            reports.append(Report(e["time"], e["vid"], e["spd"], place, e["lane"] != 4, True))
            continue
        last = reports[-1]
        if last.place[3] == 4 and e["lane"] != 0:
            continue  # it has left: noise
        begins = e["lane"] == 0 and e["time"] - last.time > 60
        enters = (begins or place[:3] != last.segment) and e["lane"] != 4
        reports.append(Report(e["time"], e["vid"], e["spd"], place, enters, begins))
    return reports


def stands(reports: list[Report]) -> list[tuple[Place, int, int | None]]:
    """Where a car stood, from its fourth report from there until its first report from elsewhere."""
    stops = []
    first = 0
    for number in range(1, len(reports) + 1):
        if number == len(reports) or reports[number].place != reports[first].place:
            if number - first >= 4:
                end = reports[number].time if number < len(reports) else None
                stops.append((reports[first].place, reports[first + 3].time, end))
            first = number
    return stops


def accidents(stood: list[tuple[Place, int, int | None]]) -> list[tuple[Place, int, int | None]]:
    """When two cars or more stood at one place: from when the second one did until less than two did."""
    changes: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for place, begin, end in stood:
        changes[place].append((begin, 1))
        if end is not None:
            changes[place].append((end, -1))
    intervals = []
    for place, moments in changes.items():
        many, since = 0, 0
        for time, change in sorted(moments):
            if many < 2 <= many + change:
                since = time
            if many + change < 2 <= many:
                intervals.append((place, since, time))
            many += change
        if many >= 2:
            intervals.append((place, since, None))
    return intervals


class Road:
    """The whole log, looked at from all sides."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)
        by_car: dict[int, list[Event]] = defaultdict(list)
        for event in self.events:
            if event["type"] == 0:
                by_car[event["vid"]].append(event)
        self.cars = {vid: reports_of(some) for vid, some in by_car.items()}
        self.accidents = accidents([stood for reports in self.cars.values() for stood in stands(reports)])
        self.seen: dict[tuple[int, ...], list[Report]] = defaultdict(list)
        for reports in self.cars.values():
            for report in reports:
                self.seen[(*report.segment, minute(report.time))].append(report)
        self.tolls: dict[tuple[int, ...], tuple[int, int, int | None]] = {}  # those that were asked for

    def number_of_cars(self, segment: tuple[int, int, int], at: int) -> int:
        return len({report.vid for report in self.seen.get((*segment, at), ())})

    def average_speed(self, segment: tuple[int, int, int], at: int) -> int:
        speeds = [r.speed for back in range(1, 6) for r in self.seen.get((*segment, at - back), ())]
        return floor(sum(speeds) / len(speeds) + 0.5) if speeds else 0

    def accident_ahead(self, segment: tuple[int, int, int], at: int) -> int | None:
        """The nearest segment with a live accident: this one, or one of the next four downstream."""
        xway, way, seg = segment
        for ahead in range(5):
            there = seg + ahead if way == 0 else seg - ahead
            for place, begin, end in self.accidents:
                live = minute(begin) + 1 <= at and (end is None or at <= minute(end))
                if live and place[:3] == (xway, way, there):
                    return there
        return None

    def toll(self, segment: tuple[int, int, int], at: int) -> tuple[int, int, int | None]:
        """The average speed, the toll, and where there is an accident."""
        if (*segment, at) not in self.tolls:
            self.tolls[(*segment, at)] = self._toll(segment, at)
        return self.tolls[(*segment, at)]

    def _toll(self, segment: tuple[int, int, int], at: int) -> tuple[int, int, int | None]:
        speed, cars, accident = (
            self.average_speed(segment, at), self.number_of_cars(segment, at - 1), self.accident_ahead(segment, at),
        )  # fmt: skip
        free = cars <= 50 or speed >= 40 or accident is not None
        return speed, 0 if free else 2 * (cars - 50) ** 2, accident

    def balance(self, vid: int, time: int) -> int:
        """What was charged before a second: of each journey the tolls of all segments but the last one entered."""
        total = pending = 0
        for report in self.cars.get(vid, ()):
            if report.time < time and report.begins:
                pending = 0
            if report.time < time and report.enters:
                total += pending
                pending = self.toll(report.segment, minute(report.time))[1]
        return total


def answers(events: Iterable[Event], history: Iterable[Mapping[str, Any]]) -> Answers:
    """All that Linear Road asks for."""
    road, result = Road(events), Answers()
    for reports in road.cars.values():
        for report in reports:
            if report.enters:
                speed, toll, accident = road.toll(report.segment, minute(report.time))
                result.tolls.append((report.vid, report.time, speed, toll))
                if accident is not None:
                    xway, way, _ = report.segment
                    result.alerts.append((report.time, xway, accident, way, report.vid))
    paid = {(row["vid"], row["day"], row["xway"]): row["toll"] for row in history}
    for event in road.events:
        if event["type"] == 2:
            result.balances.append((event["time"], event["qid"], road.balance(event["vid"], event["time"])))
        if event["type"] == 3:
            toll = paid.get((event["vid"], event["day"], event["xway"]), 0)
            result.expenditures.append((event["time"], event["qid"], toll))
    for xway, way, seg, at in road.seen:
        segment = xway, way, seg
        result.statistics[(*segment, at)] = road.number_of_cars(segment, at), road.average_speed(segment, at + 1)
    return result
