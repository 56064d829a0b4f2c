"""Who is new and sells in the same ten seconds."""

from nexmark.events import answer


def windows(table, columns):
    return f"""(
        SELECT {columns}, window_start, window_end
        FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
        GROUP BY {columns}, window_start, window_end
    )"""


answer(
    "`start` STRING, person BIGINT, name STRING",
    f"""SELECT CAST(born.window_start AS STRING), born.id, born.name
    FROM {windows("person", "id, name")} AS born JOIN {windows("auction", "seller")} AS opened
    ON born.id = opened.seller AND born.window_start = opened.window_start AND born.window_end = opened.window_end""",
)
