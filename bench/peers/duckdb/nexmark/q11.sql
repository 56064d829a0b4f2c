WITH bids AS (
    SELECT bidder, "at", "at" - lag("at") OVER (PARTITION BY bidder ORDER BY "at") AS pause
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
    )
    WHERE bidder > 0
), sessions AS (
    SELECT bidder, "at", count(*) FILTER (pause >= INTERVAL 10 SECONDS) OVER (PARTITION BY bidder ORDER BY "at") AS session
    FROM bids
)
SELECT bidder, min("at") AS start, count(*) AS bids
FROM sessions
GROUP BY bidder, session
