"""Who sells in category 10 and lives in some states."""

from nexmark.events import auctions, near, persons
from nexmark.rows import write
from pyspark.sql import functions as F

sold = auctions("seller", "id AS auction", where="category = 10")
sellers = persons("id AS person", "name", "city", "state", where="state IN ('OR', 'ID', 'CA')")
pairs = sold.join(sellers, F.expr(f"seller = person AND {near('opens', 'born')}"))
write(pairs.select("name", "city", "state", "auction"))
