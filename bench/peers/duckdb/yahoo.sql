SELECT campaign, time_bucket(INTERVAL 10 SECONDS, make_timestamp(event_time::BIGINT * 1000)) AS start, count(*) AS n
FROM read_json(
    '{input}/*.json', format = 'newline_delimited',
    columns = {{ad_id: 'VARCHAR', event_type: 'VARCHAR', event_time: 'VARCHAR'}}
)
JOIN read_csv('{table}/ads.csv', header = false, columns = {{ad: 'VARCHAR', campaign: 'VARCHAR'}}) ON ad_id = ad
WHERE event_type = 'view'
GROUP BY ALL
