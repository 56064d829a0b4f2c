"""How late do flights leave New York? By airport and hour, and by carrier and day."""

import penstock as ps

app = ps.App("flights")

departures = app.stream(
    "departures",
    ps.files("departures", format="parquet"),
    schema="carrier string, origin string, scheduled timestamp, delay int",
    event_time="scheduled",
    watermark=ps.bounded("30 minutes"),
)

answers = {
    "flights": ps.count(),
    "delay": ps.avg("delay"),
    "worst": ps.max("delay"),
    "hour_late": ps.count(where="delay >= 60"),
}
panes = ps.on_time(early=ps.each(), late=ps.each())

app.view(
    "by_airport",
    departures.group_by("origin")
    .window(ps.fixed("1 hour"))
    .agg(**answers)
    .trigger(panes)
    .retracting()
    .allow_late("4 hours"),
)
app.view(
    "by_carrier",
    departures.group_by("carrier")
    .window(ps.calendar("day", zone="America/New_York"))
    .agg(**answers)
    .trigger(panes)
    .retracting()
    .allow_late("4 hours"),
)
