"""The bids that win auctions, by day: the highest while they are open, of equal ones the earliest."""

from datetime import datetime

from bytewax import operators as op
from nexmark.days import by_day
from nexmark.events import by_key, events, pairs


def offer(pair):
    """A bid while its auction is open: what it is compared by, the smallest first, and its time."""
    bid, auction = pair
    if not auction["at"] <= bid["at"] <= datetime.fromisoformat(auction["expires"]):
        return None
    order = (-bid["price"], bid["at"], bid["bidder"])
    return f"{bid['auction']},{auction['category']}", (order, bid["at"])


def better(best, item):
    return min(best, item[0]) if best else item[0]


def winning(flow):
    """The auction and its category, the start of a day, and the price, the time and the bidder of the winner."""
    stream = events(flow)
    made = pairs("pair", by_key("bids", stream, "bid", "auction"), by_key("auctions", stream, "auction", "id"))
    return by_day("best", op.filter_map("offers", made, offer), tuple, better, min)
