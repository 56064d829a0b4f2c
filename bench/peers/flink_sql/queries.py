"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os

from session import DISORDER, read, session, sink

environment = session(memory="2 gb")
read(
    environment, "events",
    f"`key` STRING, v BIGINT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - {DISORDER}",
)  # fmt: skip
sink(environment, "query INT, `start` STRING, n BIGINT, `last` STRING")
statements = environment.create_statement_set()
for number in range(int(os.environ["PEERS_QUERIES"])):
    statements.add_insert_sql(
        f"""INSERT INTO answer SELECT {number}, CAST(window_start AS STRING), COUNT(*), MAX(`key`)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '10' SECOND)) WHERE v = {number}
        GROUP BY window_start, window_end"""
    )
statements.execute().wait()
