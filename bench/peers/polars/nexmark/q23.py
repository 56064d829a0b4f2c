"""Bids with their bidder and the auctions that the same person sells."""

from answer import write
from nexmark.events import events, near

persons = events("person", "id", "name", "city").rename({"at": "born"})
sold = events("auction", "id", "seller").rename({"at": "opens", "id": "sold"})
named = events("bid", "auction", "bidder", "price").join(persons, left_on="bidder", right_on="id")
pairs = named.filter(near("at", "born")).join(sold, left_on="bidder", right_on="seller").filter(near("at", "opens"))
write(pairs.select("auction", "bidder", "price", "name", "city", "sold"))
