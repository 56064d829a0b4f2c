SELECT auction, price
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE auction % 123 = 0 AND bidder > 0
