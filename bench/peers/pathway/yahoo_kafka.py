"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import os
from datetime import timedelta

import pathway as pw
from reading import table


class Event(pw.Schema):
    ad_id: str
    event_type: str
    event_time: str


class Ad(pw.Schema):
    ad: str
    campaign: str


settings = {
    "bootstrap.servers": os.environ["PEERS_SERVERS"],
    "group.id": os.environ["PEERS_ANSWER"],
    "auto.offset.reset": "earliest",
}
read = pw.io.kafka.read(
    settings, topic=os.environ["PEERS_TOPIC"], format="json", schema=Event, autocommit_duration_ms=200
)
viewed = read.filter(pw.this.event_type == "view")
viewed = viewed.select(pw.this.ad_id, at=pw.this.event_time.str.parse_int().dt.from_timestamp(unit="ms"))
ads = table(Ad)
known = viewed.join(ads, viewed.ad_id == ads.ad).select(ads.campaign, viewed.at)
windows = known.windowby(
    pw.this.at, window=pw.temporal.tumbling(duration=timedelta(seconds=10)), instance=pw.this.campaign
)
counts = windows.reduce(campaign=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count())
rows = counts.select(pw.this.campaign, pw.this.n, start=pw.this.start.dt.timestamp(unit="ms"))
pw.io.kafka.write(rows, settings, topic_name=os.environ["PEERS_ANSWER"], format="json")
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
