SELECT
    auction, bidder, price * 0.908::DOUBLE AS price,
    CASE
        WHEN hour("at") BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour("at") <= 6 OR hour("at") >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS part,
    "at", length(extra) - length(replace(extra, 'c', '')) AS c
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP', extra: 'VARCHAR'}}
)
WHERE price * 0.908::DOUBLE > 1000000 AND price * 0.908::DOUBLE < 50000000
