"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import os
from pathlib import Path

from quixstreams import Application
from quixstreams.dataframe.windows import Count
from quixstreams.models import TopicConfig

with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
    CAMPAIGNS = dict(csv.reader(file))


def time_of(event, headers, timestamp, kind):
    return int(event["event_time"])


app = Application(
    broker_address=os.environ["PEERS_SERVERS"], consumer_group=os.environ["PEERS_ANSWER"],
    auto_offset_reset="earliest", state_dir=Path(os.environ["PEERS_OUTPUT"], "state", str(os.getpid())),
)  # fmt: skip
source = app.topic(os.environ["PEERS_TOPIC"], timestamp_extractor=time_of)
answer = app.topic(os.environ["PEERS_ANSWER"], config=TopicConfig(num_partitions=1, replication_factor=1))
views = app.dataframe(source).filter(lambda event: event["event_type"] == "view" and event["ad_id"] in CAMPAIGNS)
keyed = views.apply(lambda event: {"campaign": CAMPAIGNS[event["ad_id"]]}).group_by("campaign")
# Partitions come each at its own speed, and a window takes events so long after newer ones. Each view shows the count:
# final counts would wait for that long too, and for a later view of the same campaign.
grace = int(float(os.environ["PEERS_DISORDER"]) * 1000)
counts = keyed.tumbling_window(10_000, grace_ms=grace).agg(n=Count()).current()
rows = counts.apply(
    lambda row, key, time, headers: {"campaign": key, "start": row["start"], "n": row["n"]}, metadata=True
)
rows.to_topic(answer)
app.run()
