"""Who sells in category 10 and lives in some states."""

from nexmark.events import app, auctions, join, persons
from nexmark.rows import write

sold = auctions.where("category = 10").select("seller", "at", auction="id")
sellers = persons.where("state IN ('OR', 'ID', 'CA')").select("name", "city", "state", person="id", born="at")
write(app, join("sellers", sold, sellers, on="seller = person").select("name", "city", "state", "auction"))
