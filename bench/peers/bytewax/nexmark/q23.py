"""Bids with their bidder and the auctions that the same person sells."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.events import by_key, events, pairs
from reading import write


def named(pair):
    bid, person = pair
    return str(bid["bidder"]), bid | {"name": person["name"], "city": person["city"]}


def row(pair):
    bid, auction = pair
    return "0", f"{bid['auction']},{bid['bidder']},{bid['price']},{bid['name']},{bid['city']},{auction['id']}"


flow = Dataflow("q23")
stream = events(flow)
people = by_key("persons", stream, "person", "id")
bids = op.map("named", pairs("bidders", by_key("bids", stream, "bid", "bidder"), people), named)
write(op.map("row", pairs("sold", bids, by_key("auctions", stream, "auction", "seller")), row))
