"""The bids for an auction on a day."""

from nexmark import bands
from nexmark.bids import app, bids

import penstock as ps

prices = {"lowest": ps.min("price"), "highest": ps.max("price"), "mean": ps.avg("price"), "total": ps.sum("price")}
app.view("q17", bids.group_by("auction").window(bands.DAY).agg(**bands.bids, **prices))
