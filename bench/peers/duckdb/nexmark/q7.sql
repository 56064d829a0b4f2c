SELECT time_bucket(INTERVAL 10 SECONDS, "at") AS start, price, concat_ws(' ', auction, bidder) AS bids
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
QUALIFY price = max(price) OVER (PARTITION BY start)
