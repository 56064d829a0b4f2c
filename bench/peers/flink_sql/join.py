"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from session import DISORDER, read, session, write

environment = session()
read(
    environment, "events",
    f"kind STRING, ad BIGINT, place INT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - {DISORDER}",
)  # fmt: skip
environment.execute_sql(
    """CREATE VIEW matched AS SELECT shown.place, clicked.`at`
    FROM (SELECT ad, `at` FROM events WHERE kind = 'click') AS clicked,
        (SELECT ad, place, `at` AS seen FROM events WHERE kind = 'shown') AS shown
    WHERE clicked.ad = shown.ad AND seen BETWEEN clicked.`at` - INTERVAL '1' MINUTE AND clicked.`at`"""
)
write(
    environment, "place INT, `start` STRING, n BIGINT",
    """SELECT place, CAST(window_start AS STRING), COUNT(*)
    FROM TABLE(TUMBLE(TABLE matched, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
    GROUP BY place, window_start, window_end""",
)  # fmt: skip
