"""Who sells in category 10 and lives in some states."""

import polars as pl
from answer import write
from nexmark.events import events, near

sold = events("auction", "id", "seller", "category").filter(pl.col("category") == 10).rename({"id": "auction"})
persons = events("person", "id", "name", "city", "state").filter(pl.col("state").is_in(["OR", "ID", "CA"]))
pairs = sold.join(persons.rename({"at": "born"}), left_on="seller", right_on="id").filter(near("at", "born"))
write(pairs.select("name", "city", "state", "auction"))
