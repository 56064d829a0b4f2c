"""What Linear Road keeps for each car, for each segment and for each account.

All that a toll in minute m depends on has happened before minute m began: how many cars there were in minute m-1, how
fast they were in minutes m-5 to m-1, and which cars stood where when minute m began. So a toll is right as soon as the
watermark has reached its minute, whatever the order in which events came up to then.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

import penstock as ps
from examples.linear_road.events import EAST, ENTRY, EXIT, FEET, SEGMENTS

Row = dict[str, Any]
#: Second 0.
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
#: A car with this number of reports from one place stands there.
EQUAL = 4
#: Cars that enter a segment get alerts of accidents there and in this number of segments after it.
AHEAD = 4
#: Statistics: tolls are charged above this number of cars, and below this speed in miles an hour, over these minutes.
BUSY, SLOW, MINUTES = 50, 40, 5


def minute(time: int) -> int:
    """The minute of a second, from 1."""
    return time // 60 + 1


def instant(time: int) -> datetime:
    """A second as an instant."""
    return BEGIN + timedelta(seconds=time)


def second(timer: ps.Timer) -> int:
    """When a timer was due, in seconds."""
    return int((timer.at - BEGIN).total_seconds())


class Report(NamedTuple):
    """Where a car is."""

    time: int
    vid: int
    spd: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int

    @property
    def segment(self) -> tuple[int, int, int]:
        return self.xway, self.dir, self.seg

    @property
    def place(self) -> tuple[int, ...]:
        return *self.segment, self.lane, self.pos


class Cars(ps.Processor):
    """By car: what its reports mean to segments.

    A segment learns of each report that counts: whether the car is counted with it for the first time in that minute
    (`fresh`), whether it has just entered, and whether its journey begins. Where a car comes to stand, or moves on, all
    segments learn from which it lies ahead: `stands` is 1 or -1, for the place of `lane` and `pos`.
    """

    output = (
        "xway int, dir int, seg int, time int, vid int, spd int, fresh boolean, enters boolean, begins boolean, "
        "lane int, pos int, stands int, at timestamp"
    )
    last = ps.value("array<int>")
    equal = ps.value("int", default=0)
    counted = ps.list_of("array<int>")  # minute, and the segment where it was counted then

    def on_events(self, key: int, events: Any) -> Iterator[Row]:
        # Those of an epoch may be in any order. No later epoch has an earlier report, as that would be late.
        for event in sorted(Report(*event) for event in events):
            yield from self.report(event, None if self.last is None else Report(*self.last))

    def report(self, now: Report, last: Report | None) -> Iterator[Row]:
        if last is not None and last.lane == EXIT and now.lane != ENTRY:
            return  # it has left: this is noise
        begins = last is None or (now.lane == ENTRY and now.time - last.time > 60)
        enters = (begins or last is None or now.segment != last.segment) and now.lane != EXIT
        yield {
            "xway": now.xway, "dir": now.dir, "seg": now.seg, "time": now.time, "vid": now.vid, "spd": now.spd,
            "fresh": self.is_fresh(now), "enters": enters, "begins": begins, "at": instant(now.time),
        }  # fmt: skip
        if last is not None and now.place == last.place:
            self.equal += 1
            if self.equal == EQUAL:
                yield from self.stands(now, now, 1)
        else:
            if last is not None and self.equal >= EQUAL:
                yield from self.stands(now, last, -1)
            self.equal = 1
        self.last = list(now)

    def is_fresh(self, now: Report) -> bool:
        place = [minute(now.time), *now.segment]
        before = [one for one in self.counted if one[0] == place[0]]
        self.counted = before if place in before else [*before, place]
        return place not in before

    def stands(self, now: Report, there: Report, change: int) -> Iterator[Row]:
        for back in range(AHEAD + 1):
            seg = there.seg - back if there.dir == EAST else there.seg + back
            if 0 <= seg < SEGMENTS:
                yield {
                    "xway": there.xway, "dir": there.dir, "seg": seg, "time": now.time, "lane": there.lane,
                    "pos": there.pos, "stands": change, "at": instant(now.time),
                }  # fmt: skip


class Segments(ps.Processor):
    """By segment: what a car that enters must pay, and of which accident it must be notified."""

    output = "vid int, time int, xway int, dir int, seg int, lav int, toll int, begins boolean, at timestamp"
    sides: ClassVar = {"alerts": "time int, xway int, seg int, dir int, vid int, at timestamp"}
    minutes = ps.map_of("int", "array<int>")  # by minute: cars, reports, the sum of their speeds
    changes = ps.list_of("array<int>")  # minute, lane, pos, 1 or -1: of minutes that no toll has looked back at yet
    standing = ps.map_of("string", "int")  # by lane and pos: how many cars stood there when the minute began
    entering = ps.list_of("array<int>")  # time, vid, begins

    def on_event(self, key: Any, event: Any, time: Any) -> None:
        now = minute(event.time)
        if event.stands is not None:
            self.changes.append([now, event.lane, event.pos, event.stands])
            return
        cars, reports, speeds = self.minutes.get(now, (0, 0, 0))
        self.minutes[now] = [cars + event.fresh, reports + 1, speeds + event.spd]
        if event.enters:
            self.entering.append([event.time, event.vid, int(event.begins)])
            self.set_timer(time - timedelta(seconds=event.time % 60))  # when its minute began

    def on_timer(self, key: Any, timer: ps.Timer) -> Iterator[Row]:
        now = minute(second(timer))
        entering = [one for one in self.entering if minute(one[0]) <= now]
        self.entering = [one for one in self.entering if minute(one[0]) > now]
        self.look_back(now)
        lav, accident = self.average_speed(now), self.accident(key)
        cars = self.minutes.get(now - 1, (0,))[0]
        toll = 2 * (cars - BUSY) ** 2 if cars > BUSY and lav < SLOW and accident is None else 0
        for time, vid, begins in entering:
            where = {"time": time, "xway": key.xway, "dir": key.dir, "vid": vid, "at": instant(time)}
            yield {**where, "seg": key.seg, "lav": lav, "toll": toll, "begins": bool(begins)}
            if accident is not None:
                self.emit_to("alerts", {**where, "seg": accident})

    def look_back(self, now: int) -> None:
        """Who stood where when a minute began, and nothing of what is too old to count."""
        for when, lane, pos, change in self.changes:
            if when < now:
                place = f"{lane} {pos}"
                self.standing[place] = self.standing.get(place, 0) + change
                if not self.standing[place]:
                    del self.standing[place]
        self.changes = [one for one in self.changes if one[0] >= now]
        for old in [one for one in self.minutes if one < now - MINUTES]:
            del self.minutes[old]

    def average_speed(self, now: int) -> int:
        """That of all reports of the last five minutes, to the nearest whole number."""
        there = [self.minutes.get(now - back, (0, 0, 0)) for back in range(1, MINUTES + 1)]
        reports, speeds = (sum(one[which] for one in there) for which in (1, 2))
        return (2 * speeds + reports) // (2 * reports) if reports else 0

    def accident(self, key: Any) -> int | None:
        """The nearest segment, from this one on, where two cars stood at one place when the minute began."""
        segments = [int(place.split()[1]) // FEET for place, cars in self.standing.items() if cars > 1]
        return min(segments, key=lambda seg: abs(seg - key.seg), default=None)


class Accounts(ps.Processor):
    """By car: its balance. A toll is charged when the car enters the next segment of the same journey.

    An account query sees what was charged before its second.
    """

    output = "time int, qid int, vid int, balance bigint, at timestamp"
    balance = ps.value("bigint", default=0)
    shown = ps.value("bigint", default=0)  # the toll of the segment where the car is
    tolls = ps.list_of("array<bigint>")  # time, toll, begins: of seconds that may not be over
    asked = ps.list_of("array<bigint>")  # time, qid

    def on_event(self, key: int, event: Any, time: Any) -> None:
        if event.qid is None:
            self.tolls.append([event.time, event.toll, int(event.begins)])
            self.set_timer(time + timedelta(seconds=1), name="charge")
        else:
            self.asked.append([event.time, event.qid])
            self.set_timer(time)

    def on_timer(self, key: int, timer: ps.Timer) -> Iterator[Row]:
        now = second(timer)
        for _, toll, begins in sorted(one for one in self.tolls if one[0] < now):
            self.balance += 0 if begins else self.shown
            self.shown = toll
        self.tolls = [one for one in self.tolls if one[0] >= now]
        for time, qid in [one for one in self.asked if one[0] <= now]:
            yield {"time": time, "qid": qid, "vid": key, "balance": self.balance, "at": instant(time)}
        self.asked = [one for one in self.asked if one[0] > now]
