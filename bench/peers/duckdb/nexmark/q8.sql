WITH events AS (
    SELECT *
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{
            kind: 'VARCHAR', id: 'BIGINT', name: 'VARCHAR', seller: 'BIGINT', "at": 'TIMESTAMP'
        }}
    )
)
SELECT DISTINCT time_bucket(INTERVAL 10 SECONDS, person."at") AS start, person.id AS person, person.name
FROM events AS person JOIN events AS auction ON person.id = auction.seller
WHERE person.kind = 'person' AND auction.kind = 'auction'
    AND time_bucket(INTERVAL 10 SECONDS, person."at") = time_bucket(INTERVAL 10 SECONDS, auction."at")
