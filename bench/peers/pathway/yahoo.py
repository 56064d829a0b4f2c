"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

from datetime import timedelta

import pathway as pw
from reading import events, run, table


class Event(pw.Schema):
    ad_id: str
    event_type: str
    event_time: str


class Ad(pw.Schema):
    ad: str
    campaign: str


read = events(Event)
viewed = read.filter(pw.this.event_type == "view")
viewed = viewed.select(pw.this.ad_id, at=pw.this.event_time.str.parse_int().dt.from_timestamp(unit="ms"))
ads = table(Ad)
known = viewed.join(ads, viewed.ad_id == ads.ad).select(ads.campaign, viewed.at)
windows = known.windowby(
    pw.this.at, window=pw.temporal.tumbling(duration=timedelta(seconds=10)), instance=pw.this.campaign
)
counts = windows.reduce(campaign=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count())
run(read, counts, ["campaign", "start", "n"])
