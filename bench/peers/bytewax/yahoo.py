"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import os
from datetime import UTC, datetime

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import fold_window
from reading import clock, lines, read, rows_of_windows, ten_seconds, write

with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
    CAMPAIGNS = dict(csv.reader(file))


def view(line):
    """The campaign and the time of a view; None for other events, and for unknown ads."""
    event = read(line)
    if event["event_type"] != "view":
        return None
    campaign = CAMPAIGNS.get(event["ad_id"])
    return campaign and (campaign, datetime.fromtimestamp(int(event["event_time"]) / 1000, UTC))


flow = Dataflow("yahoo")
views = op.filter_map("view", lines(flow), view)
counts = fold_window(
    "count",
    views,
    clock(lambda time: time),
    ten_seconds(),
    lambda: (0,),
    lambda n, _: (n[0] + 1,),
    lambda a, b: (a[0] + b[0],),
    False,
)
write(rows_of_windows(counts))
