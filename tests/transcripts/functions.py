"""The Python functions that transcripts name: windows, merge rules and monoids of one's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from operator import add, or_

Window = tuple[datetime, datetime]


def session_of_v_minutes(at: datetime, v: int) -> Window:
    return at, at + timedelta(minutes=v)


def v_minutes(at: datetime, v: int) -> list[Window]:
    return [session_of_v_minutes(at, v)]


def v_minutes_or_none(at: datetime, v: int) -> list[Window]:
    return v_minutes(at, v) if v else []


def v_times_size_minutes(at: datetime, v: int, size: int) -> list[Window]:
    return v_minutes(at, v * size)


def part_of_an_hour(at: datetime, v: int) -> list[Window]:
    return v_minutes(at, 60 // v)


def one_two_and_one_minutes(at: datetime) -> list[Window]:
    return [session_of_v_minutes(at, minutes) for minutes in (1, 2, 1)]


def one_two_and_three_minutes(at: datetime) -> list[Window]:
    return [session_of_v_minutes(at, minutes) for minutes in (1, 2, 3)]


def whole_minute(at: datetime) -> list[Window]:
    return v_minutes(at.replace(second=0), 1)


def all_together(windows: list[Window]) -> list[list[int]]:
    return [list(range(len(windows)))]


def each_alone(windows: list[Window]) -> list[list[int]]:
    return [[number] for number in range(len(windows))]


def itself(v: int) -> int:
    return v


def sixty_by(v: int) -> int:
    return 60 // v


FUNCTIONS: dict[str, Callable[..., object]] = {
    "bitwise_or": or_,
    "plus": add,
    **{
        function.__name__: function
        for function in (
            session_of_v_minutes, v_minutes, v_minutes_or_none, v_times_size_minutes, part_of_an_hour,
            one_two_and_one_minutes, one_two_and_three_minutes, whole_minute, all_together, each_alone, itself,
            sixty_by,
        )
    },
}  # fmt: skip
