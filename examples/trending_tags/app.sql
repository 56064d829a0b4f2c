-- Which tags do people post about right now? The last five minutes, every minute, and every ten seconds in between.
--
--   penstock run examples/trending_tags/app.sql
--   penstock query "SELECT tag, posts, people FROM trending
--                   WHERE window_end = (SELECT max(window_end) FROM trending) ORDER BY posts DESC LIMIT 10"

CREATE STREAM posts (
  id BIGINT, user BIGINT, tag STRING, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL 4 SECONDS
) FROM GENERATOR 'posts' WITH (rate = 2000, seed = 1, disorder = '3 seconds', late = 0.002, lateness = '75 seconds');

CREATE STREAM tags AS SELECT lower(tag) AS tag, user, at FROM posts WHERE tag IS NOT NULL;

CREATE CONTINUOUS VIEW trending AS
  SELECT tag, window_start, window_end, count(*) AS posts, approx_count_distinct(user) AS people
  FROM HOP(tags, at, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)
  GROUP BY tag, window_start, window_end
  EMIT EARLY EVERY 10 SECONDS ON TIME LATE EACH RETRACTING
  ALLOWED LATENESS 1 HOUR;

-- Only what many people post about.
CREATE CONTINUOUS VIEW loud AS
  SELECT tag, window_start, window_end, count(*) AS posts, count(*) / approx_count_distinct(user) AS posts_a_person
  FROM TUMBLE(tags, at, INTERVAL 1 MINUTE)
  GROUP BY tag, window_start, window_end
  HAVING count(*) >= 3;
