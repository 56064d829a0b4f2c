"""Bids for every 123rd auction."""

from nexmark.bids import app, bids
from nexmark.rows import write

write(app, bids.where("auction % 123 = 0").select("auction", "price"))
