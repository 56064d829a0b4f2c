"""Nexmark's queries with joins: auctions with their sellers, bids with their auctions, bids with a table beside them.

Upstream keeps both sides of a join permanently. Here a join says how far apart in time two events may be, so that state
is bounded: by what the generator does, a bid comes within a minute of its auction, and an auction within ten minutes
of its seller, at a hundred events a second or more. Two joins of streams serve five queries.
"""

from __future__ import annotations

from collections.abc import Callable

import penstock as ps
from examples.nexmark.queries import TEN, Streams
from penstock.model.stream import Flow
from penstock.sources import Source

#: When an auction opens, less when a bid for it is made. Some bids come before their auction.
NEAR_BID = ("-1 minute", "10 seconds")
#: When a person is born, less when an auction of theirs opens.
NEAR_SELLER = ("-10 minutes", "10 seconds")
LAST = 10

Entry = list[int]  # when an auction ends, its number, the price, and how often this is there


def bids_of_auctions(s: Streams) -> ps.Stream:
    """Bids with the auctions that they are for, whichever comes first."""
    if "bids_of_auctions" in s.app.streams:
        return s.app.streams["bids_of_auctions"]
    bids = s.bids.select("auction", "bidder", "price", "channel", "at")
    auctions = s.auctions.select("seller", "category", "item", "expires", auction="id", opens="at")
    return s.app.join("bids_of_auctions", bids, auctions, on="auction", within=NEAR_BID, max_ahead=None)


def side_input(s: Streams, log: Source) -> ps.Table:
    """A table of values by number, each valid from some time on."""
    schema = "number bigint, value string, since timestamp"
    return s.app.table("side_input", log, schema=schema, key="number", valid_from="since")


# Rows


def q3(s: Streams) -> Flow:
    """Who sells in category 10 in some states."""
    auctions = s.auctions.where("category = 10").select("seller", auction="id")
    persons = s.persons.where("state IN ('OR', 'ID', 'CA')").select("name", "city", "state", seller="id")
    sellers = s.app.join("sellers", auctions, persons, on="seller", within=NEAR_SELLER, max_ahead=None)
    return sellers.select("name", "city", "state", "auction")


def q13(s: Streams) -> Flow:
    """Bids with the value of a table, as of the processing time of the bid, as it was recorded."""
    table = s.app.tables["side_input"]
    joined = s.bids.with_time("received").join(table, on="auction % 10000 = number", prefix="side_input_")
    return joined.select("auction", "bidder", "price", "at", "value")


def q20(s: Streams) -> Flow:
    """Bids for auctions of category 10, with the auction."""
    return bids_of_auctions(s).where("category = 10")


# Views


def q8(s: Streams) -> ps.View:
    """Who is new and sells at once: persons with auctions that they open in the same ten seconds.

    In one window the two sides need no join: they are counted together, and those are shown that have both.
    """
    persons = s.persons.select("name", person="id", is_new="true")
    sellers = s.auctions.select(name="CAST(NULL AS STRING)", person="seller", is_new="false")
    both = persons.union(sellers).group_by("person").window(TEN)
    aggregates = {"name": ps.max("name"), "persons": ps.count(where="is_new"), "auctions": ps.count(where="NOT is_new")}
    return s.app.view("q8", both.agg(**aggregates).having("persons > 0 AND auctions > 0"))


def q9(s: Streams) -> ps.View:
    """The bid that wins an auction: the highest while it is open, and the earliest of those."""
    if "q9" in s.app.views:
        return s.app.views["q9"]
    rank = "price * 100000000 - (unix_millis(at) - unix_millis(opens))"
    inside = bids_of_auctions(s).where("at >= opens AND at <= expires")
    aggregates = {"price": ps.max("price"), "bidder": ps.max_by("bidder", rank), "at": ps.max_by("at", rank)}
    return s.app.view("q9", inside.group_by("auction", "seller", "category", "expires").agg(**aggregates).retracting())


def q4(s: Streams) -> ps.View:
    """What auctions of a category fetch on average: a view over the winning bids, which change while auctions run."""
    return s.app.view("q4", q9(s).changes().group_by("category").agg(mean=ps.avg("price"), auctions=ps.count()))


def q6(s: Streams) -> ps.View:
    """The mean of the last ten winning prices of a seller: those of the auctions that end last."""
    mean = ps.monoid(
        "mean_of_last", "unix_millis(expires)", "auction", "price",
        lift=entry, merge=together, zero=[], inverse=taken_back, present=mean_of_last, result_type="double",
    )  # fmt: skip
    return s.app.view("q6", q9(s).changes().group_by("seller").agg(mean=mean))


def entry(expires: int, auction: int, price: int) -> list[Entry]:
    return [[expires, auction, price, 1]]


def together(a: list[Entry], b: list[Entry]) -> list[Entry]:
    times: dict[tuple[int, ...], int] = {}
    for *what, count in (*a, *b):
        times[tuple(what)] = times.get(tuple(what), 0) + count
    return [[*what, count] for what, count in sorted(times.items()) if count]


def taken_back(entries: list[Entry]) -> list[Entry]:
    return [[*what, -count] for *what, count in entries]


def mean_of_last(entries: list[Entry]) -> float | None:
    prices = [price for _, _, price, count in entries if count > 0][-LAST:]
    return sum(prices) / len(prices) if prices else None


ROWS: dict[str, Callable[[Streams], Flow]] = {"q3": q3, "q13": q13, "q20": q20}
VIEWS: dict[str, Callable[[Streams], ps.View]] = {"q4": q4, "q6": q6, "q8": q8, "q9": q9}
