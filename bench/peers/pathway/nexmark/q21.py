"""The number of a bid's channel, from its name or from its address."""

import re

import pathway as pw
from nexmark.rows import source, write

KNOWN = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


@pw.udf
def channel_id(channel: str, url: str) -> str:
    """Its number, or an empty text."""
    found = KNOWN.get(channel.lower()) or re.search("(&|^)channel_id=([^&]*)", url)
    return found if isinstance(found, str) else found[2] if found else ""


read, bids = source("channel", "url")
numbered = bids.select(
    pw.this.auction, pw.this.bidder, pw.this.price, pw.this.channel, channel_id=channel_id(pw.this.channel, pw.this.url)
)
write(read, numbered.filter(pw.this.channel_id != ""))
