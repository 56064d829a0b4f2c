SELECT auction, bidder, price * 0.908::DOUBLE AS price, "at"
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
