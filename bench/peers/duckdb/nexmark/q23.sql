WITH events AS (
    SELECT *
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{
            kind: 'VARCHAR', id: 'BIGINT', auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT',
            name: 'VARCHAR', city: 'VARCHAR', seller: 'BIGINT', "at": 'TIMESTAMP'
        }}
    )
)
SELECT bid.auction, bid.bidder, bid.price, person.name, person.city, auction.id AS sold
FROM events AS bid
JOIN events AS person ON bid.bidder = person.id
JOIN events AS auction ON bid.bidder = auction.seller
WHERE bid.kind = 'bid' AND person.kind = 'person' AND auction.kind = 'auction'
    AND bid."at" - person."at" BETWEEN -INTERVAL 1 MINUTE AND INTERVAL 1 MINUTE
    AND bid."at" - auction."at" BETWEEN -INTERVAL 1 MINUTE AND INTERVAL 1 MINUTE
