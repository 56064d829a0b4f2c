LOAD 'app.sql';
-- The same with an early pane every two plays.
CREATE OR REPLACE CONTINUOUS VIEW plays_by_hour AS
  SELECT song, window_start, window_end, count(*) FILTER (WHERE seconds >= 30) AS plays, count(*) AS started
  FROM TUMBLE(plays, at, INTERVAL 1 HOUR)
  GROUP BY song, window_start, window_end
  EMIT EARLY AFTER 2 ROWS ON TIME LATE EACH RETRACTING
  ALLOWED LATENESS 2 DAYS;

TEST 'an early pane every two plays';
INSERT INTO plays VALUES ('Blue', 'ann', 200, '12:05:00');
ASSERT PANES OF plays_by_hour IS EMPTY;
INSERT INTO plays VALUES ('Blue', 'bob', 10, '12:06:00');
ASSERT PANES OF plays_by_hour (song, plays, started, timing) EQUALS ('Blue', 1, 2, 'early');
INSERT INTO plays VALUES ('Blue', 'cid', 90, '12:07:00'), ('Blue', 'dan', 90, '12:08:00');
ASSERT PANES OF plays_by_hour (song, plays, started, kind, timing) EQUALS
  ('Blue', 1, 2, 'retract', 'early'), ('Blue', 3, 4, 'insert', 'early');

TEST 'on time, and then a correction for each late play';
INSERT INTO plays VALUES ('Blue', 'ann', 200, '12:05:00');
ADVANCE WATERMARK TO '13:00:00';
ASSERT PANES OF plays_by_hour (song, plays, kind, timing) EQUALS ('Blue', 1, 'insert', 'on time');
INSERT INTO plays VALUES ('Blue', 'eve', 60, '12:59:00');
ASSERT PANES OF plays_by_hour (song, plays, kind, timing) EQUALS
  ('Blue', 1, 'retract', 'late'), ('Blue', 2, 'insert', 'late');

TEST 'after two days a play is too late';
INSERT INTO plays VALUES ('Blue', 'ann', 200, '12:05:00');
ADVANCE WATERMARK TO '2000-01-03 13:00:00';
INSERT INTO plays VALUES ('Blue', 'eve', 60, '12:59:00');
ASSERT LATE OF plays_by_hour (listener) EQUALS ('eve');
ASSERT plays_by_hour (plays, final) EQUALS (1, true);

TEST 'the longest plays';
INSERT INTO plays VALUES ('Blue', 'ann', 200, '12:05:00'), ('Red', 'ann', 300, '12:06:00');
ASSERT longest (songs) EQUALS (array('Red', 'Blue'));
