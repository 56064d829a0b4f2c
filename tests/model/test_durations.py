"""Durations: text with a unit or a timedelta, wherever one is taken; and short spellings of joins and views."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.testing import TestStream, process

SHOWN = ps.stream("shown", schema="ad int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
CLICKS = ps.stream("clicks", schema="ad int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"))
HIGH = ps.pattern("high", lambda event, m: event.ad > 1)

#: What takes a duration, from one.
TAKERS: dict[str, Callable[[object], object]] = {
    "fixed": lambda value: ps.fixed(value),
    "sliding": lambda value: ps.sliding("1 hour", every=value),
    "cumulating": lambda value: ps.cumulating("1 hour", step=value),
    "session": lambda value: ps.session(value),
    "bounded": lambda value: ps.bounded(value, idle=value),
    "percentile": lambda value: ps.percentile(99, idle=value),
    "every": lambda value: ps.every(value),
    "after_delay": lambda value: ps.after_delay(value),
    "allow_late": lambda value: SHOWN.window(ps.fixed("1 hour")).agg(n=ps.count()).allow_late(value),
    "retain": lambda value: SHOWN.window(ps.fixed("1 hour")).agg(n=ps.count()).retain(value),
    "id_horizon": lambda value: ps.stream("s", schema="ad int", id="ad", id_horizon=value),
    "max_ahead": lambda value: ps.stream("s", schema="ad int", max_ahead=value),
    "keep": lambda value: ps.stream("s", schema="at timestamp", event_time="at", keep=value),
    "reload": lambda value: ps.table("t", schema="ad int", key="ad", reload=value),
    "table_of": lambda value: app_with_view().table_of("by_ad", reload=value),
    "batch": lambda value: app_with_view().view("other", by_ad(), batch=value),
    "within": lambda value: SHOWN.join(CLICKS, on="ad", within=value, prefix="c_"),
    "within, both": lambda value: SHOWN.join(CLICKS, on="ad", within=(value, value), prefix="c_"),
    "pattern": lambda value: HIGH.within(value),
    "state": lambda value: ps.value("int", ttl=value),
    "generator": lambda value: ps.generator(dict, rate=1, disorder=value, late=0.5, lateness=value),
    "http": lambda value: ps.http("events", retention=value),
}


def by_ad() -> ps.View:
    return SHOWN.group_by("ad").agg(n=ps.count())


def app_with_view() -> App:
    app = App("ads")
    app.take_stream(SHOWN)
    app.view("by_ad", by_ad())
    return app


@pytest.mark.parametrize("name", TAKERS)
def test_a_timedelta_is_the_same_as_text_and_a_number_is_an_error(name: str) -> None:
    take = TAKERS[name]
    assert repr(take(timedelta(minutes=10))) == repr(take("10 minutes"))
    with pytest.raises(DefinitionError, match=r"'\d+ \w+'"):
        take(10)


def test_one_duration_bounds_a_join_either_way() -> None:
    one = SHOWN.join(CLICKS, on="ad", within=timedelta(hours=1), prefix="c_")
    assert one == SHOWN.join(CLICKS, on="ad", within=("-1 hour", timedelta(hours=1)), prefix="c_")
    with pytest.raises(DefinitionError, match="must not be negative"):
        SHOWN.join(CLICKS, on="ad", within="-1 hour", prefix="c_")
    with pytest.raises(DefinitionError, match="within has two bounds"):
        SHOWN.join(CLICKS, on="ad", within=("1 hour", "2 hours", "3 hours"), prefix="c_")  # type: ignore[arg-type]


def test_a_stream_is_aggregated_without_keys() -> None:
    assert SHOWN.agg(n=ps.count()) == SHOWN.group_by().agg(n=ps.count())


@pytest.mark.parametrize(
    "give",
    [
        lambda key, m: {"ad": key, "at": m.last("high").at},
        lambda key, m: (key, m.last("high").at),
        lambda key, m: [(key, m.last("high").at)],
    ],
    ids=["dictionary", "tuple", "list"],
)
def test_a_match_gives_a_dictionary_a_tuple_or_several_of_them(give: Callable[..., object]) -> None:
    app = App("ads")
    app.take_stream(SHOWN)
    found = app.match("found", SHOWN, HIGH, by="ad", output="ad int, at timestamp", give=give)  # type: ignore[arg-type]
    script = TestStream(SHOWN).add((1, "12:00:00"), (2, "12:00:01")).end()
    played = process(found, script)
    assert [row["ad"] for row in played.rows] == [2]
    assert not played.dead
