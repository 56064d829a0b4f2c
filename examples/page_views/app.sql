-- Page views on a day. A day is that of Berlin, with 23 or 25 hours where the clocks change.
--
--   penstock run examples/page_views/app.sql
--   penstock query "SELECT url, views FROM views_by_day WHERE window_start = '2024-04-30 22:00:00'"

CREATE STREAM page_views (
  url STRING, user STRING, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
) FROM FILES 'page_views' WITH (format = 'csv', header = true);

CREATE STREAM pages AS
  SELECT split_part(url, '?', 1) AS url, user, at FROM page_views WHERE url NOT LIKE '/health%';

CREATE CONTINUOUS VIEW views_by_day AS
  SELECT url, window_start, window_end, count(*) AS views, count(DISTINCT user) AS people
  FROM CALENDAR(pages, at, 'day', 'Europe/Berlin')
  GROUP BY url, window_start, window_end
  EMIT EARLY EVERY 1 MINUTE ON TIME
  ALLOWED LATENESS 1 DAY;

-- The running total of each day, by the hour.
CREATE CONTINUOUS VIEW views_so_far AS
  SELECT window_start, window_end, count(*) AS views
  FROM CUMULATE(pages, at, INTERVAL 1 HOUR, INTERVAL 1 DAY)
  GROUP BY window_start, window_end;
