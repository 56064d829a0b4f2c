"""What every query has: its bids, and how it writes; the last line is nobody's."""

from session import DISORDER, read, session, write

environment = session()
read(
    environment, "lines",
    f"""auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `at` TIMESTAMP_LTZ(3), extra STRING,
    WATERMARK FOR `at` AS `at` - {DISORDER}""",
)  # fmt: skip
environment.execute_sql("CREATE VIEW bids AS SELECT * FROM lines WHERE bidder > 0")


def answer(columns, query):
    write(environment, columns, query)
