WITH counts AS (
    SELECT time_bucket(INTERVAL 2 SECONDS, "at") - i * INTERVAL 2 SECONDS AS start, auction, count(*) AS bids
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
    ), range(5) AS slides (i)
    WHERE bidder > 0
    GROUP BY ALL
)
SELECT start, bids, auction AS auctions
FROM counts
QUALIFY bids = max(bids) OVER (PARTITION BY start)
