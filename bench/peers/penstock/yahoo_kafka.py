"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import os

import penstock as ps

COLUMNS = "user_id ad_id page_id ad_type event_type event_time ip_address"
SERVERS = os.environ["PEERS_SERVERS"]
app = ps.App("yahoo")
events = app.stream(
    "events", ps.kafka(os.environ["PEERS_TOPIC"], servers=SERVERS),
    schema=", ".join(f"{name} string" for name in COLUMNS.split()),
    event_time="timestamp_millis(CAST(event_time AS bigint))", watermark=ps.bounded("10 seconds", idle=None),
    keep="none",
)  # fmt: skip
ads = app.table("ads", ps.files(os.environ["PEERS_TABLE"], format="csv"), schema="ad string, campaign string", key="ad")
views = events.where("event_type = 'view'").join(ads, on="ad_id = ad")
counts = views.group_by("campaign").window(ps.fixed("10 seconds")).agg(n=ps.count())
view = app.view("result", counts.trigger(ps.on_time(early=ps.each())))
# The broker remembers how far a sink is by this id, and each run begins anew.
answer = ps.to_kafka(
    os.environ["PEERS_ANSWER"], servers=SERVERS, mode="update", transactional_id=os.environ["PEERS_ANSWER"]
)
app.sink(view, answer, name="answer")
