"""Bids with the text that a table of 10,000 rows has for their auction."""

import csv
import os
from pathlib import Path

from nexmark.rows import rows

with Path(os.environ["PEERS_INPUT"]).parent.joinpath("side_input", "side_input.csv").open(newline="") as file:
    TEXTS = {int(number): text for number, text in csv.reader(file)}


def row(bid):
    text = TEXTS.get(bid["auction"] % 10_000)
    return text and f"{bid['auction']},{bid['bidder']},{bid['price']},{bid['at']},{text}"


flow = rows("q13", row)
