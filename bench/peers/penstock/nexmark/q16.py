"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

from nexmark import bands
from nexmark.bids import app, bids

import penstock as ps

minute = ps.max("date_format(at, 'HH:mm')")
app.view("q16", bids.group_by("channel").window(bands.DAY).agg(minute=minute, **bands.bids, **bands.distinct))
