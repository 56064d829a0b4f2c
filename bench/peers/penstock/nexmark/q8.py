"""Who is new and sells in the same ten seconds: in one window both are counted together, without a join."""

from nexmark.events import app, events

import penstock as ps

both = events.where("kind <> 'bid'").select("kind", "name", person="CASE kind WHEN 'person' THEN id ELSE seller END")
counts = {f"{kind}s": ps.count(where=f"kind = '{kind}'") for kind in ("person", "auction")}
new = both.group_by("person").window(ps.fixed("10 seconds")).agg(name=ps.max("name"), **counts)
app.view("q8", new.having("persons > 0 AND auctions > 0"))
