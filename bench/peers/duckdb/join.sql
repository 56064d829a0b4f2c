WITH events AS MATERIALIZED (
    SELECT * FROM read_json(
        '{input}/*.json', format = 'newline_delimited',
        columns = {{kind: 'VARCHAR', ad: 'BIGINT', place: 'BIGINT', "at": 'TIMESTAMP'}}
    )
)
SELECT shown.place, time_bucket(INTERVAL 10 SECONDS, clicked."at") AS start, count(*) AS n
FROM (SELECT * FROM events WHERE kind = 'click') AS clicked
JOIN (SELECT * FROM events WHERE kind = 'shown') AS shown
    ON clicked.ad = shown.ad AND shown."at" BETWEEN clicked."at" - INTERVAL 1 MINUTE AND clicked."at"
GROUP BY ALL
