"""The number of a bid's channel, from its name or from its address."""

from nexmark.bids import bids
from nexmark.rows import write

CHANNEL = """CASE lower(channel)
    WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END"""
numbered = bids.where("bidder > 0").selectExpr("auction", "bidder", "price", "channel", f"{CHANNEL} AS channel_id")
write(numbered.where("channel_id IS NOT NULL"))
