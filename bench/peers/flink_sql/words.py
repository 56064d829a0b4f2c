"""Words of lines, counted by hour."""

from session import DISORDER, read, session, write

environment = session()
read(environment, "lines", f"line STRING, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - {DISORDER}")
environment.execute_sql(
    "CREATE VIEW words AS SELECT word, `at` FROM lines CROSS JOIN UNNEST(SPLIT(line, ' ')) AS split (word)"
)
write(
    environment, "word STRING, `start` STRING, n BIGINT",
    """SELECT word, CAST(window_start AS STRING), COUNT(*)
    FROM TABLE(TUMBLE(TABLE words, DESCRIPTOR(`at`), INTERVAL '1' HOUR))
    GROUP BY word, window_start, window_end""",
)  # fmt: skip
