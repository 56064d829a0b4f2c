LOAD 'app.sql';
INSERT INTO lines VALUES ('The cat, the hat', '12:00:10'), ('', '12:00:20'), (NULL, '12:00:30');
INSERT INTO lines VALUES ('the end.', '12:01:10');

TEST 'the rolling count never ends';
ASSERT word_count (word, n) EQUALS ('the', 3), ('cat', 1), ('hat', 1), ('end', 1);
ASSERT PANES OF word_count (commit, word, n) EQUALS
  (1, 'cat', 1), (1, 'hat', 1), (1, 'the', 2), (2, 'end', 1), (2, 'the', 3);

TEST 'the windowed count starts over each minute';
ASSERT word_count_by_minute (word, window_end, n) EQUALS
  ('the', '12:01:00', 2), ('cat', '12:01:00', 1), ('hat', '12:01:00', 1), ('the', '12:02:00', 1), ('end', '12:02:00', 1);

TEST 'a minute is shown once, when it is complete';
ASSERT PANES OF word_count_by_minute (word, window_end, n) EQUALS
  ('cat', '12:01:00', 1), ('hat', '12:01:00', 1), ('the', '12:01:00', 2);
INSERT INTO lines VALUES ('hat', '12:00:59');
ASSERT LATE OF word_count_by_minute (line, reason) EQUALS ('hat', 'its window had closed');
