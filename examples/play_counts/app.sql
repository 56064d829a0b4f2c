-- Hourly play counts of songs: early panes every thousand plays, a pane on time, and corrections for two days.
--
--   python examples/play_counts/plays.py
--   penstock run examples/play_counts/app.sql

CREATE STREAM plays (
  song STRING, listener STRING, seconds INT, at TIMESTAMP,
  WATERMARK FOR at AS PERCENTILE(at, 99)
) FROM FILES 'plays' WITH (format = 'parquet');

-- A play of less than half a minute does not count.
CREATE CONTINUOUS VIEW plays_by_hour AS
  SELECT song, window_start, window_end,
         count(*) FILTER (WHERE seconds >= 30) AS plays,
         count(*) AS started,
         percentile_approx(seconds, array(0.5, 0.9)) AS listened
  FROM TUMBLE(plays, at, INTERVAL 1 HOUR)
  GROUP BY song, window_start, window_end
  EMIT EARLY AFTER 1000 ROWS ON TIME LATE EACH RETRACTING
  ALLOWED LATENESS 2 DAYS;

-- The chart of each hour: the ten songs that were played longest at a time.
CREATE CONTINUOUS VIEW longest AS
  SELECT window_start, window_end, top(10, seconds, song) AS songs
  FROM TUMBLE(plays, at, INTERVAL 1 HOUR)
  GROUP BY window_start, window_end
  EMIT AFTER 95 PERCENT;

CREATE SINK corrections FROM plays_by_hour INTO FILES 'corrections' WITH (format = 'parquet');
