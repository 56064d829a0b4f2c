"""The number of a bid's channel, from its name or from its address."""

from nexmark.bids import answer

CHANNEL = """CASE LOWER(channel)
    WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END"""
answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING",
    f"SELECT auction, bidder, price, channel, {CHANNEL} FROM bids WHERE {CHANNEL} IS NOT NULL",
)
