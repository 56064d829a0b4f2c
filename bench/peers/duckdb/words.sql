SELECT word, time_bucket(INTERVAL 1 HOUR, "at") AS start, count(*) AS n
FROM (
    SELECT unnest(string_split(line, ' ')) AS word, "at"
    FROM read_json(
        '{input}/*.json', format = 'newline_delimited', columns = {{line: 'VARCHAR', "at": 'TIMESTAMP'}}
    )
)
GROUP BY ALL
