SELECT time_bucket(INTERVAL 1 DAY, "at") AS start, auction, price, bidder
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
QUALIFY row_number() OVER (PARTITION BY start, auction ORDER BY price DESC, bidder DESC) <= 10
