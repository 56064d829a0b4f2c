"""What the queries with joins have: views of persons, auctions and bids, which are in one stream.

The last line is nobody's.
"""

from session import DISORDER, read, session, write

environment = session()
read(
    environment, "events",
    f"""kind STRING, id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING,
    `at` TIMESTAMP_LTZ(3), extra STRING, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
    expires TIMESTAMP_LTZ(3), seller BIGINT, category BIGINT, auction BIGINT, bidder BIGINT, price BIGINT,
    channel STRING, url STRING, WATERMARK FOR `at` AS `at` - {DISORDER}""",
)  # fmt: skip
for view, kind, columns in (
    ("person", "person", "id, name, city, state, `at`"),
    ("auction", "auction", "id, item, expires, seller, category, `at`"),
    ("bid", "bid", "auction, bidder, price, `at`"),
):
    environment.execute_sql(f"CREATE VIEW {view} AS SELECT {columns} FROM events WHERE kind = '{kind}'")


def near(time, other):
    """That two times are a minute apart at most."""
    return f"{time} BETWEEN {other} - INTERVAL '1' MINUTE AND {other} + INTERVAL '1' MINUTE"


def answer(columns, query):
    write(environment, columns, query)
