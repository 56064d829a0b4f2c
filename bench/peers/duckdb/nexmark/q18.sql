SELECT time_bucket(INTERVAL 1 DAY, "at") AS start, bidder, auction, price, channel, url, "at"
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{
        auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', url: 'VARCHAR', "at": 'TIMESTAMP'
    }}
)
WHERE bidder > 0
QUALIFY row_number() OVER (PARTITION BY start, bidder, auction ORDER BY "at" DESC, price DESC) = 1
