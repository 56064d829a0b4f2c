WITH events AS (
    SELECT *
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{
            kind: 'VARCHAR', id: 'BIGINT', auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT',
            item: 'VARCHAR', seller: 'BIGINT', category: 'BIGINT', "at": 'TIMESTAMP'
        }}
    )
)
SELECT bid.auction, bid.bidder, bid.price, bid."at", auction.seller, auction.item
FROM events AS bid JOIN events AS auction ON bid.auction = auction.id
WHERE bid.kind = 'bid' AND auction.kind = 'auction' AND auction.category = 10
    AND bid."at" - auction."at" BETWEEN -INTERVAL 1 MINUTE AND INTERVAL 1 MINUTE
