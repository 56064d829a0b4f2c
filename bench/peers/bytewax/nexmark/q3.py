"""Who sells in category 10 and lives in some states."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.events import by_key, events, pairs
from reading import write


def row(pair):
    auction, person = pair
    return "0", f"{person['name']},{person['city']},{person['state']},{auction['id']}"


flow = Dataflow("q3")
stream = events(flow)
sold = by_key("auctions", stream, "auction", "seller", lambda auction: auction["category"] == 10)
sellers = by_key("persons", stream, "person", "id", lambda person: person["state"] in ("OR", "ID", "CA"))
write(op.map("row", pairs("pair", sold, sellers), row))
