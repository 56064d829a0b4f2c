"""How a query gives out rows: files that are only added to."""

import os

import penstock as ps


def write(app, rows):
    app.sink(rows, ps.to_jsonl(os.environ["PEERS_OUTPUT"] + "/answer", mode="append"), name="answer")
