SELECT auction, bidder, price, "at", value
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
JOIN read_csv(
    '{input}/../side_input/*.csv', header = false, columns = {{number: 'BIGINT', value: 'VARCHAR'}}
) ON auction % 10000 = number
WHERE bidder > 0
