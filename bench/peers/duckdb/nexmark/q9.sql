WITH events AS (
    SELECT *
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{
            kind: 'VARCHAR', id: 'BIGINT', auction: 'BIGINT', price: 'BIGINT', bidder: 'BIGINT',
            category: 'BIGINT', expires: 'TIMESTAMP', "at": 'TIMESTAMP'
        }}
    )
), ranked AS (
    SELECT
        time_bucket(INTERVAL 1 DAY, bid."at") AS start, auction.id AS auction, auction.category, bid.price, bid.bidder,
        bid."at",
        row_number() OVER (
            PARTITION BY start, auction.id ORDER BY bid.price DESC, bid."at", bid.bidder
        ) AS place
    FROM events AS bid JOIN events AS auction ON bid.auction = auction.id
    WHERE bid.kind = 'bid' AND auction.kind = 'auction' AND bid."at" BETWEEN auction."at" AND auction.expires
)
SELECT start, auction, category, price, bidder, "at"
FROM ranked
WHERE place = 1
