"""The three directories of a bid's address."""

import pathway as pw
from nexmark.rows import source, write


@pw.udf
def part(url: str, place: int) -> str:
    return url.split("/")[place]


read, bids = source("channel", "url")
parts = {f"dir{place}": part(pw.this.url, place + 2) for place in (1, 2, 3)}
write(read, bids.select(pw.this.auction, pw.this.bidder, pw.this.price, pw.this.channel, **parts))
