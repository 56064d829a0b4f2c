"""The number of a bid's channel, from its name or from its address."""

from nexmark.bids import app, bids
from nexmark.rows import write

CHANNEL = """CASE lower(channel)
    WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END"""
numbered = bids.select("auction", "bidder", "price", "channel", channel_id=CHANNEL)
write(app, numbered.where("channel_id IS NOT NULL"))
