SELECT key, count(*) AS n, sum(v)::BIGINT AS total
FROM read_json('{input}/*.json', format = 'newline_delimited', columns = {{key: 'VARCHAR', v: 'BIGINT'}})
WHERE key <> 'end'
GROUP BY ALL
