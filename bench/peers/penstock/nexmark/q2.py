"""Bids for every 123rd auction."""

import os

from nexmark.bids import app, bids

import penstock as ps

chosen = bids.where("auction % 123 = 0").select("auction", "price")
app.sink(chosen, ps.to_jsonl(os.environ["PEERS_OUTPUT"] + "/answer", mode="append"), name="answer")
