"""Nexmark's queries as views and streams of one app, all on one scan of each log.

A query without state gives rows (`app.sink`), any other a view of its name; views that it is made of have its name and
one more word. Queries with joins stand in `joins.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import penstock as ps
from examples.nexmark.events import AUCTION, BID, PERSON, RECEIVED
from penstock.model.stream import Flow
from penstock.sources import Source

#: How far behind the newest event others may be: Nexmark's own bound.
BEHIND = "4 seconds"
TEN = ps.fixed("10 seconds")
#: Bands of price, in cents.
BANDS = {"low": "price < 10000", "middle": "price >= 10000 AND price < 1000000", "high": "price >= 1000000"}


@dataclass(frozen=True)
class Streams:
    """The three logs of Nexmark as streams of an app."""

    app: ps.App
    persons: ps.Stream
    auctions: ps.Stream
    bids: ps.Stream


def streams(app: ps.App, log: Callable[[str], Source], keep: str | None = None) -> Streams:
    """The streams; `log` gives the log of a name."""
    schemas = {"persons": PERSON, "auctions": AUCTION, "bids": BID}
    made = {
        name: app.stream(
            name, log(name), schema=schema + RECEIVED, event_time="at", watermark=ps.bounded(BEHIND), max_ahead=None,
            keep=keep,
        )
        for name, schema in schemas.items()
    }  # fmt: skip
    return Streams(app, **made)


# Rows


def q0(s: Streams) -> Flow:
    """Bids as they are."""
    return s.bids.select("auction", "bidder", "price", "at", "extra")


def q1(s: Streams) -> Flow:
    """Prices in another currency."""
    return s.bids.select("auction", "bidder", price="CAST(price AS DOUBLE) * 0.908D", at="at")


def q2(s: Streams) -> Flow:
    """Bids for some auctions."""
    return s.bids.where("auction % 123 = 0").select("auction", "price")


def q10(s: Streams) -> Flow:
    """All bids, by day and minute: the columns that files are sorted into."""
    return s.bids.select(
        "auction", "bidder", "price", "at", "extra", day="CAST(at AS DATE)", minute="date_format(at, 'HH:mm')"
    )


def q14(s: Streams) -> Flow:
    """Bids in a band of prices, with the time of day and how many letters c they carry."""
    hour = "hour(at)"
    part = (
        f"CASE WHEN {hour} >= 8 AND {hour} <= 18 THEN 'dayTime' "
        f"WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' ELSE 'otherTime' END"
    )
    price = "CAST(price AS DOUBLE) * 0.908D"
    return s.bids.where(f"{price} > 1000000 AND {price} < 50000000").select(
        "auction", "bidder", price=price, part=part, at="at", c="length(extra) - length(replace(extra, 'c', ''))"
    )


def q21(s: Streams) -> Flow:
    """The number of a bid's channel, from its name or from its address."""
    known = " ".join(f"WHEN '{name}' THEN '{i}'" for i, name in enumerate(("apple", "google", "facebook", "baidu")))
    named = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
    return s.bids.select(
        "auction", "bidder", "price", "channel", channel_id=f"CASE lower(channel) {known} ELSE {named} END"
    ).where("channel_id IS NOT NULL")


def q22(s: Streams) -> Flow:
    """The three directories of a bid's address."""
    parts = {f"dir{i}": f"split_part(url, '/', {i + 3})" for i in (1, 2, 3)}
    return s.bids.select("auction", "bidder", "price", "channel", **parts)


# Views


def q5(s: Streams) -> ps.View:
    """The auctions with the most bids of ten seconds, every two seconds, with ties: a view over views.

    The first counts, the second has the auctions of each count, the third takes those of the highest.
    """
    window = ps.sliding("10 seconds", every="2 seconds")
    counts = s.bids.group_by("auction").window(window).agg(bids=ps.count()).retracting()
    counts = s.app.view("q5_counts", counts)
    levels = counts.changes().group_by("bids").window(ps.window_of()).agg(auctions=ps.collect_set("auction"))
    levels = s.app.view("q5_levels", levels.retracting())
    most = levels.changes().window(ps.window_of()).agg(bids=ps.max("bids"), auctions=ps.max_by("auctions", "bids"))
    return s.app.view("q5", most)


def q7(s: Streams) -> ps.View:
    """The highest bids of ten seconds, with ties."""
    bid = "concat_ws(' ', CAST(auction AS STRING), CAST(bidder AS STRING))"
    bids = ps.top(1, "price", value=bid, ties=True)
    return s.app.view("q7", s.bids.window(TEN).agg(price=ps.max("price"), bids=bids))


def q11(s: Streams) -> ps.View:
    """How many bids a person makes without a pause of ten seconds."""
    return s.app.view("q11", s.bids.group_by("bidder").window(ps.session("10 seconds")).agg(bids=ps.count()))


def q12(s: Streams) -> ps.View:
    """How many bids of a person come in ten seconds of processing time, as it was recorded."""
    return s.app.view("q12", s.bids.with_time("received").group_by("bidder").window(TEN).agg(bids=ps.count()))


def bands(column: str | None = None) -> dict[str, ps.model.aggregates.Aggregate]:
    """How many in all and in each band of price: bids, or distinct values of a column."""
    word = "bids" if column is None else f"{column}s"

    def aggregate(where: str | None) -> ps.model.aggregates.Aggregate:
        return ps.count(where=where) if column is None else ps.count_distinct(column, where=where)

    return {word: aggregate(None), **{f"{word}_{band}": aggregate(where) for band, where in BANDS.items()}}


def q15(s: Streams) -> ps.View:
    """Bids, bidders and auctions of a day, in all and by band of price."""
    aggregates = {**bands(), **bands("bidder"), **bands("auction")}
    return s.app.view("q15", s.bids.window(ps.calendar("day")).agg(**aggregates))


def q16(s: Streams) -> ps.View:
    """The same by channel, with the last minute in which it was seen."""
    aggregates = {"minute": ps.max("date_format(at, 'HH:mm')"), **bands(), **bands("bidder"), **bands("auction")}
    return s.app.view("q16", s.bids.group_by("channel").window(ps.calendar("day")).agg(**aggregates))


def q17(s: Streams) -> ps.View:
    """What was bid for an auction on a day."""
    aggregates = {
        "lowest": ps.min("price"),
        "highest": ps.max("price"),
        "mean": ps.avg("price"),
        "total": ps.sum("price"),
    }
    return s.app.view("q17", s.bids.group_by("auction").window(ps.calendar("day")).agg(**bands(), **aggregates))


def q18(s: Streams) -> ps.View:
    """The last bid of a person for an auction."""
    columns = {name: ps.last(name) for name in ("price", "channel", "url", "at", "extra")}
    return s.app.view("q18", s.bids.group_by("bidder", "auction").agg(**columns))


def q19(s: Streams) -> ps.View:
    """The ten highest bids for an auction."""
    aggregates = {"prices": ps.top(10, "price"), "bidders": ps.top(10, "price", value="bidder")}
    return s.app.view("q19", s.bids.group_by("auction").agg(**aggregates))


ROWS: dict[str, Callable[[Streams], Flow]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q10": q10,
    "q14": q14,
    "q21": q21,
    "q22": q22,
}
VIEWS: dict[str, Callable[[Streams], ps.View]] = {
    "q5": q5, "q7": q7, "q11": q11, "q12": q12, "q15": q15, "q16": q16, "q17": q17, "q18": q18, "q19": q19,
}  # fmt: skip
