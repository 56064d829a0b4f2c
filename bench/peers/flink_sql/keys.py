"""Counts and sums by key in windows of ten seconds."""

from session import DISORDER, read, session, write

environment = session()
read(
    environment, "events",
    f"`key` STRING, v BIGINT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - {DISORDER}",
)  # fmt: skip
write(
    environment, "`key` STRING, `start` STRING, n BIGINT, total BIGINT",
    """SELECT `key`, CAST(window_start AS STRING), COUNT(*), SUM(v)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
    GROUP BY `key`, window_start, window_end""",
)  # fmt: skip
