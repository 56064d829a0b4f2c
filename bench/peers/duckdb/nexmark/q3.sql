WITH events AS (
    SELECT *
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{
            kind: 'VARCHAR', id: 'BIGINT', name: 'VARCHAR', city: 'VARCHAR', state: 'VARCHAR', seller: 'BIGINT',
            category: 'BIGINT', "at": 'TIMESTAMP'
        }}
    )
)
SELECT person.name, person.city, person.state, auction.id AS auction
FROM events AS auction JOIN events AS person ON auction.seller = person.id
WHERE auction.kind = 'auction' AND auction.category = 10
    AND person.kind = 'person' AND person.state IN ('OR', 'ID', 'CA')
    AND auction."at" - person."at" BETWEEN -INTERVAL 1 MINUTE AND INTERVAL 1 MINUTE
