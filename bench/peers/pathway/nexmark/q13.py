"""Bids with the text that a table of 10,000 rows has for their auction."""

import csv
import os
from pathlib import Path

import pathway as pw
from nexmark.rows import source, write


class Text(pw.Schema):
    number: int
    value: str


with Path(os.environ["PEERS_INPUT"]).parent.joinpath("side_input", "side_input.csv").open(newline="") as file:
    texts = pw.debug.table_from_rows(Text, [(int(number), value) for number, value in csv.reader(file)])
read, bids = source("at")
numbered = bids.with_columns(number=pw.this.auction % 10_000)
joined = numbered.join(texts, numbered.number == texts.number)
write(read, joined.select(numbered.auction, numbered.bidder, numbered.price, numbered.at, texts.value))
