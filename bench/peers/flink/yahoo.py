"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import os

import orjson
from pyflink.common import Types
from session import lines, session, timed, windows, write

with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
    CAMPAIGNS = dict(csv.reader(file))


def view(line):
    """The campaign and the time of a view; nothing for other events, and for unknown ads."""
    event = orjson.loads(line)
    if event["event_type"] == "view" and event["ad_id"] in CAMPAIGNS:
        yield CAMPAIGNS[event["ad_id"]], int(event["event_time"])


environment = session()
views = lines(environment).flat_map(view, Types.TUPLE([Types.STRING(), Types.LONG()]))
write(environment, windows(timed(views), seconds=10))
