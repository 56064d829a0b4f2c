"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import os

from session import on_kafka, read, session

environment = session()
# A partition is in order, and a window waits for the slowest one.
environment.execute_sql(
    f"""CREATE TABLE events (
        user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time STRING,
        ip_address STRING, `at` AS TO_TIMESTAMP_LTZ(CAST(event_time AS BIGINT), 3), WATERMARK FOR `at` AS `at`
    ) WITH ({on_kafka(os.environ["PEERS_TOPIC"], "read")})"""
)
read(
    environment, "ads",
    """ad STRING, campaign STRING, since AS TO_TIMESTAMP_LTZ(0, 3), WATERMARK FOR since AS since,
    PRIMARY KEY (ad) NOT ENFORCED""",
    table=True,
)  # fmt: skip
environment.execute_sql(
    """CREATE VIEW viewed AS SELECT campaign, `at`
    FROM (SELECT ad_id, `at` FROM events WHERE event_type = 'view') AS seen
    JOIN ads FOR SYSTEM_TIME AS OF seen.`at` ON ad_id = ad"""
)
environment.execute_sql(
    f"""CREATE TABLE answer (campaign STRING, `start` STRING, n BIGINT)
    WITH ({on_kafka(os.environ["PEERS_ANSWER"], "write")})"""
)
environment.execute_sql(
    """INSERT INTO answer SELECT campaign, CAST(window_start AS STRING), COUNT(*)
    FROM TABLE(TUMBLE(TABLE viewed, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
    GROUP BY campaign, window_start, window_end"""
).wait()
