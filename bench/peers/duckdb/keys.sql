SELECT key, time_bucket(INTERVAL 10 SECONDS, "at") AS start, count(*) AS n, sum(v)::BIGINT AS total
FROM read_json(
    '{input}/*.json', format = 'newline_delimited', columns = {{key: 'VARCHAR', v: 'BIGINT', "at": 'TIMESTAMP'}}
)
GROUP BY ALL
