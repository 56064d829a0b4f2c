"""Bids in a band of prices, with the part of the day and how many letters c they have."""

import pathway as pw
from nexmark.rows import source, write
from reading import FORMAT

read, bids = source("at", "extra")
priced = bids.with_columns(price=pw.cast(float, pw.this.price) * 0.908, hour=pw.this.at.dt.strptime(FORMAT).dt.hour())
chosen = priced.filter((pw.this.price > 1_000_000) & (pw.this.price < 50_000_000))
day, night = (pw.this.hour >= 8) & (pw.this.hour <= 18), (pw.this.hour <= 6) | (pw.this.hour >= 20)
part = pw.if_else(day, "dayTime", pw.if_else(night, "nightTime", "otherTime"))
letters = pw.this.extra.str.count("c")
write(read, chosen.select(pw.this.auction, pw.this.bidder, pw.this.price, part=part, at=pw.this.at, c=letters))
