SELECT auction, bidder, price, url, "at"
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', url: 'VARCHAR', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
