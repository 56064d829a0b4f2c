"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import os
from datetime import UTC, datetime, timedelta

import orjson
from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, count_window
from reading import BEGIN, LENGTH, ten_seconds

SERVERS = os.environ["PEERS_SERVERS"]
with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
    CAMPAIGNS = dict(csv.reader(file))


def view(message):
    """The campaign and the time of a view; None for other events, and for unknown ads."""
    event = orjson.loads(message.value)
    if event["event_type"] != "view" or event["ad_id"] not in CAMPAIGNS:
        return None
    return CAMPAIGNS[event["ad_id"]], datetime.fromtimestamp(int(event["event_time"]) / 1000, UTC)


def message(item):
    campaign, (window, n) = item
    start = int((BEGIN + window * LENGTH).timestamp() * 1000)
    return KafkaSinkMessage(None, orjson.dumps({"campaign": campaign, "start": start, "n": n}))


flow = Dataflow("yahoo")
# A topic to which nothing comes is read to its end, where all windows close.
source = KafkaSource([SERVERS], [os.environ["PEERS_TOPIC"]], tail=bool(os.environ["PEERS_LIVE"]), batch_size=1000)
events = op.input("events", flow, source)
views = op.filter_map("view", events, view)
# Partitions come each at its own speed, and a key's windows wait so long for the slowest.
disorder = timedelta(seconds=float(os.environ["PEERS_DISORDER"]))
clock = EventClock(lambda item: item[1], disorder, to_system_utc=lambda _: None)
counts = count_window("count", views, clock, ten_seconds(), key=lambda item: item[0])
op.output("answer", op.map("message", counts.down, message), KafkaSink([SERVERS], os.environ["PEERS_ANSWER"]))
