SELECT v AS query, time_bucket(INTERVAL 10 SECONDS, "at") AS start, count(*) AS n, max(key) AS last
FROM read_json(
    '{input}/*.json', format = 'newline_delimited', columns = {{key: 'VARCHAR', v: 'BIGINT', "at": 'TIMESTAMP'}}
)
WHERE v < {queries}
GROUP BY ALL
