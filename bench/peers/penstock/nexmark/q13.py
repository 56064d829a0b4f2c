"""Bids with the text that a table of 10,000 rows has for their auction."""

import os
from pathlib import Path

from nexmark.bids import app, bids
from nexmark.rows import write

import penstock as ps

folder = Path(os.environ["PEERS_INPUT"]).parent / "side_input"
texts = app.table("texts", ps.files(folder, format="csv"), schema="number bigint, value string", key="number")
write(app, bids.join(texts, on="auction % 10000 = number").select("auction", "bidder", "price", "at", "value"))
