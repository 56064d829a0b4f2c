-- Word count, rolling and windowed. The log has a word a line: word,at
--
--   penstock run examples/word_count/app.sql
--   penstock query "SELECT word, n FROM word_count ORDER BY n DESC LIMIT 10"

CREATE STREAM words (
  word STRING, at TIMESTAMP,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS
) FROM FILES 'words' WITH (format = 'csv');

CREATE STREAM spoken AS SELECT lower(trim(word)) AS word FROM words WHERE word IS NOT NULL;

-- All time: the count of a word goes up with every epoch that has it.
CREATE CONTINUOUS VIEW word_count AS
  SELECT word, count(*) AS n FROM spoken GROUP BY word EMIT CHANGES;

-- Each minute on its own, shown once, when it is complete.
CREATE CONTINUOUS VIEW word_count_by_minute AS
  SELECT word, window_start, window_end, count(*) AS n
  FROM TUMBLE(spoken, at, INTERVAL 1 MINUTE)
  GROUP BY word, window_start, window_end
  EMIT FINAL;

CREATE SINK minutes FROM word_count_by_minute INTO FILES 'minutes' WITH (mode = 'append');
