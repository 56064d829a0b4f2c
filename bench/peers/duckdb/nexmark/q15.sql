SELECT
    time_bucket(INTERVAL 1 DAY, "at") AS start,
    count(*) AS bids,
    count(*) FILTER (price < 10000) AS bids_low,
    count(*) FILTER (price BETWEEN 10000 AND 999999) AS bids_middle,
    count(*) FILTER (price >= 1000000) AS bids_high,
    count(DISTINCT bidder) AS bidders,
    count(DISTINCT bidder) FILTER (price < 10000) AS bidders_low,
    count(DISTINCT bidder) FILTER (price BETWEEN 10000 AND 999999) AS bidders_middle,
    count(DISTINCT bidder) FILTER (price >= 1000000) AS bidders_high,
    count(DISTINCT auction) AS auctions,
    count(DISTINCT auction) FILTER (price < 10000) AS auctions_low,
    count(DISTINCT auction) FILTER (price BETWEEN 10000 AND 999999) AS auctions_middle,
    count(DISTINCT auction) FILTER (price >= 1000000) AS auctions_high
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE bidder > 0
GROUP BY start
