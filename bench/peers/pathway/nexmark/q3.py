"""Who sells in category 10 and lives in some states."""

import pathway as pw
from nexmark.events import auctions, near, persons, read
from nexmark.rows import write

sold = auctions.filter(pw.this.category == 10)
sellers = persons.filter((pw.this.state == "OR") | (pw.this.state == "ID") | (pw.this.state == "CA"))
pairs = near(sold, sellers, sold.seller == sellers.number)
write(read, pairs.select(sellers.name, sellers.city, sellers.state, auction=sold.number))
