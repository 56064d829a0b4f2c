"""Bids for every 123rd auction."""

from nexmark.bids import bids
from session import OUTPUT

chosen = bids.where("auction % 123 = 0 AND bidder > 0").select("auction", "price")
query = chosen.writeStream.format("json").option("path", str(OUTPUT / "answer")).trigger(availableNow=True)
query.option("checkpointLocation", str(OUTPUT / "checkpoint")).start().awaitTermination()
