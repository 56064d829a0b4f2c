"""What every query has: its bids; the last line is nobody's."""

import pathway as pw
from reading import FORMAT, events


class Bid(pw.Schema):
    auction: int
    bidder: int
    price: int
    at: str


read = events(Bid)
bids = read.filter(pw.this.bidder > 0)
bids = bids.select(pw.this.auction, pw.this.bidder, pw.this.price, at=pw.this.at.dt.strptime(FORMAT))
