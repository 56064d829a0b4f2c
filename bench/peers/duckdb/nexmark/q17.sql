SELECT
    auction, time_bucket(INTERVAL 1 DAY, "at") AS start,
    count(*) AS bids,
    count(*) FILTER (price < 10000) AS bids_low,
    count(*) FILTER (price BETWEEN 10000 AND 999999) AS bids_middle,
    count(*) FILTER (price >= 1000000) AS bids_high,
    min(price) AS lowest, max(price) AS highest, avg(price) AS mean, sum(price) AS total
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
GROUP BY auction, start
