"""Bids and distinct bidders and auctions, in all and in three bands of prices."""

from nexmark.days import band


def nothing():
    return [0] * 4, [set() for _ in range(4)], [set() for _ in range(4)], ""


def add(counted, bid):
    """`bid` has a price, a bidder, an auction and a time."""
    counts, bidders, auctions, minute = counted
    price, bidder, auction, time = bid
    for place in (0, band(price)):
        counts[place] += 1
        bidders[place].add(bidder)
        auctions[place].add(auction)
    return counts, bidders, auctions, max(minute, f"{time:%H:%M}")


def merged(a, b):
    counts = [one + other for one, other in zip(a[0], b[0], strict=True)]
    sets = [[one | other for one, other in zip(a[place], b[place], strict=True)] for place in (1, 2)]
    return counts, *sets, max(a[3], b[3])


def shown(counted):
    """All numbers as CSV."""
    counts, bidders, auctions, _ = counted
    return ",".join(map(str, [*counts, *map(len, bidders), *map(len, auctions)]))
