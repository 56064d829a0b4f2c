"""What DuckDB answers to Nexmark's queries over all events at once: what the views must hold at the end."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl

_BANDS = {"low": "price < 10000", "middle": "price >= 10000 AND price < 1000000", "high": "price >= 1000000"}


def _bands(column: str | None = None) -> str:
    word, what = ("bids", "*") if column is None else (f"{column}s", f"DISTINCT {column}")
    parts = [f"count({what}) AS {word}"]
    parts += [f"count({what}) FILTER ({where}) AS {word}_{band}" for band, where in _BANDS.items()]
    return ", ".join(parts)


_ALL_BANDS = ", ".join(map(_bands, (None, "bidder", "auction")))
_CHANNEL = (
    "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' "
)
_HOPS = "range(epoch_ms(ts) // 2000 * 2000 - 8000, epoch_ms(ts) // 2000 * 2000 + 2000, 2000)"
_PART = (
    "CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'nightTime' "
    "ELSE 'otherTime' END"
)

#: Bids with their auctions while these are open, numbered from the winner on.
_BY_RANK = """
    SELECT b.*, a.seller, a.category, a.expires,
           row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.place) AS rank
    FROM bids b JOIN auctions a ON b.auction = a.id WHERE b.ts BETWEEN a.ts AND a.expires"""
_WINNERS = f"SELECT * FROM ({_BY_RANK}) WHERE rank = 1"

QUERIES: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, ts, extra FROM bids",
    "q1": "SELECT auction, bidder, price::DOUBLE * 0.908::DOUBLE AS price, ts FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id AS auction FROM auctions a JOIN persons p ON a.seller = p.id
             WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"SELECT category, avg(price) AS mean, count(*) AS auctions FROM ({_WINNERS}) GROUP BY category",
    "q5": f"""
        WITH counts AS (SELECT auction, start, count(*) AS bids
                        FROM (SELECT auction, unnest({_HOPS}) AS start FROM bids) GROUP BY ALL),
             most AS (SELECT start, max(bids) AS bids FROM counts GROUP BY start)
        SELECT epoch_ms(start) AS window_start, bids, list_sort(list(auction)) AS auctions
        FROM counts JOIN most USING (start, bids) GROUP BY ALL""",
    "q6": f"""
        WITH last AS (SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, auction DESC) AS back
                      FROM ({_WINNERS}))
        SELECT seller, avg(price) AS mean FROM last WHERE back <= 10 GROUP BY seller""",
    "q7": """
        WITH b AS (SELECT *, epoch_ms(ts) // 10000 * 10000 AS start FROM bids),
             most AS (SELECT start, max(price) AS price FROM b GROUP BY start)
        SELECT epoch_ms(start) AS window_start, price, list_sort(list(auction || ' ' || bidder)) AS bids
        FROM b JOIN most USING (start, price) GROUP BY ALL""",
    "q8": """
        SELECT p.id AS person, p.name, epoch_ms(epoch_ms(p.ts) // 10000 * 10000) AS window_start, count(*) AS auctions
        FROM persons p JOIN auctions a ON p.id = a.seller AND epoch_ms(p.ts) // 10000 = epoch_ms(a.ts) // 10000
        GROUP BY ALL""",
    "q9": f"SELECT auction, seller, category, expires, price, bidder, ts FROM ({_WINNERS})",
    "q10": "SELECT auction, bidder, price, ts, extra, ts::DATE AS day, strftime(ts, '%H:%M') AS minute FROM bids",
    "q11": """
        WITH starts AS (SELECT bidder, ts, coalesce(ts >= lag(ts) OVER w + INTERVAL 10 SECONDS, true)::INT AS new
                        FROM bids WINDOW w AS (PARTITION BY bidder ORDER BY ts)),
             numbered AS (SELECT bidder, ts, sum(new) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM starts)
        SELECT bidder, min(ts) AS window_start, max(ts) + INTERVAL 10 SECONDS AS window_end, count(*) AS bids
        FROM numbered GROUP BY bidder, session""",
    "q12": """SELECT bidder, epoch_ms(epoch_ms(received) // 10000 * 10000) AS window_start, count(*) AS bids
              FROM bids GROUP BY ALL""",
    "q13": """SELECT auction, bidder, price, ts, value
              FROM bids ASOF JOIN side_input ON auction % 10000 = number AND received >= since""",
    "q14": f"""SELECT auction, bidder, price::DOUBLE * 0.908::DOUBLE AS price, {_PART} AS part, ts,
                      (length(extra) - length(replace(extra, 'c', '')))::INT AS c
               FROM bids WHERE price::DOUBLE * 0.908::DOUBLE > 1000000 AND price::DOUBLE * 0.908::DOUBLE < 50000000""",
    "q15": f"SELECT ts::DATE::TIMESTAMP AS window_start, {_ALL_BANDS} FROM bids GROUP BY 1",
    "q16": f"""SELECT channel, ts::DATE::TIMESTAMP AS window_start, max(strftime(ts, '%H:%M')) AS minute, {_ALL_BANDS}
               FROM bids GROUP BY 1, 2""",
    "q17": f"""SELECT auction, ts::DATE::TIMESTAMP AS window_start, {_bands()}, min(price) AS lowest,
                      max(price) AS highest, avg(price) AS mean, sum(price)::BIGINT AS total
               FROM bids GROUP BY 1, 2""",
    "q18": """SELECT bidder, auction, arg_max(price, (ts, place)) AS price, arg_max(channel, (ts, place)) AS channel,
                     arg_max(url, (ts, place)) AS url, max(ts) AS ts, arg_max(extra, (ts, place)) AS extra
              FROM bids GROUP BY ALL""",
    "q19": """SELECT auction, list(price ORDER BY price DESC, place)[:10] AS prices,
                     list(bidder ORDER BY price DESC, place)[:10] AS bidders FROM bids GROUP BY auction""",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.ts, a.seller, a.category, a.item, a.expires,
                     a.ts AS opens
              FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""SELECT * FROM (SELECT auction, bidder, price, channel,
                      {_CHANNEL} ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
               FROM bids) WHERE channel_id IS NOT NULL""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
                     split_part(url, '/', 6) AS dir3 FROM bids""",
}


class Oracle:
    """Nexmark's events in DuckDB: `ts` is an event's time, `place` its place in the log."""

    def __init__(self, directory: Path) -> None:
        self._connection = duckdb.connect()
        for name in ("persons", "auctions", "bids", "side_input"):
            frame = pl.concat([pl.read_ndjson(file) for file in sorted((directory / name).glob("*.json"))])
            times = [one for one in ("at", "expires", "received", "since") if one in frame.columns]
            frame = frame.with_columns(pl.col(times).str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ"))
            frame = frame.rename({"at": "ts"}, strict=False)
            self._connection.register("given", frame.with_row_index("place").to_arrow())
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")

    def answer(self, query: str) -> pl.DataFrame:
        rows = self._connection.sql(QUERIES[query]).pl()
        return rows.rename({"ts": "at"}) if "ts" in rows.columns else rows

    def close(self) -> None:
        self._connection.close()
