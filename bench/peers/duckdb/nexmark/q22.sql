SELECT
    auction, bidder, price, channel,
    split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', url: 'VARCHAR'}}
)
WHERE bidder > 0
