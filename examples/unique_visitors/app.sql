-- Unique visitors by URL and hour, for the last three days.
--
--   python examples/unique_visitors/visits.py
--   penstock run examples/unique_visitors/app.sql
--   penstock query "SELECT url, window_start, visitors, visitors_exact FROM visitors_by_hour ORDER BY visitors DESC"

CREATE STREAM page_views (
  id STRING, url STRING, user STRING, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL 10 MINUTES
) FROM FILES 'page_views' WITH (id = 'id');

-- Each hour on its own, for three days. A sketch counts the visitors, to within a few percent; a batch run counts them
-- exactly, and visitors_exact says which it is.
CREATE CONTINUOUS VIEW visitors_by_hour WITH (retention = '3 days') AS
  SELECT url, window_start, window_end, approx_count_distinct(user, exact_in_batch => true) AS visitors,
         count(*) AS views
  FROM TUMBLE(page_views, at, INTERVAL 1 HOUR)
  GROUP BY url, window_start, window_end
  ALLOWED LATENESS 1 DAY;

-- The last three days as one, computed at each full hour. Visitors of several hours count once here: uniques do not add up.
CREATE CONTINUOUS VIEW visitors_of_three_days AS
  SELECT url, window_start, window_end, approx_count_distinct(user) AS visitors
  FROM HOP(page_views, at, INTERVAL 1 HOUR, INTERVAL 3 DAYS)
  GROUP BY url, window_start, window_end;
