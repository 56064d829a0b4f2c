-- Word count from raw lines, rolling and windowed. The log has lines of text: {"line": "…", "at": "…"}
--
--   penstock run examples/word_count/app.sql
--   penstock query "SELECT word, n FROM word_count ORDER BY n DESC LIMIT 10"

CREATE STREAM lines (
  line STRING, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS
) FROM FILES 'lines';

-- All time: the count of a word goes up with every epoch that has it.
CREATE CONTINUOUS VIEW word_count AS
  SELECT word, count(*) AS n
  FROM lines LATERAL VIEW explode(split(lower(line), '[^a-z]+')) AS word
  WHERE word <> ''
  GROUP BY word;

-- Each minute on its own, shown once, when it is complete.
CREATE STREAM words AS
  SELECT word FROM lines LATERAL VIEW explode(split(lower(line), '[^a-z]+')) AS word WHERE word <> '';

CREATE CONTINUOUS VIEW word_count_by_minute AS
  SELECT word, window_start, window_end, count(*) AS n
  FROM TUMBLE(words, at, INTERVAL 1 MINUTE)
  GROUP BY word, window_start, window_end
  EMIT FINAL;

CREATE SINK minutes FROM word_count_by_minute INTO FILES 'minutes' WITH (mode = 'append');
