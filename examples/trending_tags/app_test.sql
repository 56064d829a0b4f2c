LOAD 'app.sql';
START CLOCK AT '12:00:00';

INSERT INTO posts VALUES
  (1, 1, 'Rain', '12:00:10'), (2, 2, 'rain', '12:00:20'), (3, 2, 'rain', '12:00:30'), (4, 3, 'chess', '12:00:40'),
  (5, 3, NULL, '12:00:50');

TEST 'a post is in five windows';
ASSERT (SELECT count(*) FROM trending WHERE tag = 'chess') EQUALS (5);
ASSERT trending (tag, window_start, posts, people) CONTAINS ('rain', '11:56:00', 3, 2), ('rain', '12:00:00', 3, 2);

TEST 'early panes come by the clock, every ten seconds';
ASSERT PANES OF trending IS EMPTY;
ADVANCE CLOCK BY 10 SECONDS;
ASSERT PANES OF trending (tag, window_end, posts, timing) CONTAINS
  ('rain', '12:01:00', 3, 'early'), ('chess', '12:01:00', 1, 'early');

TEST 'a late post corrects what was shown';
ADVANCE WATERMARK TO '12:01:00';
ASSERT PANES OF trending (tag, window_end, posts, kind, timing) EQUALS
  ('chess', '12:01:00', 1, 'insert', 'on time'), ('rain', '12:01:00', 3, 'insert', 'on time');
INSERT INTO posts VALUES (6, 9, 'chess', '12:00:59');
ASSERT PANES OF trending (tag, window_end, posts, kind, timing) EQUALS
  ('chess', '12:01:00', 1, 'retract', 'late'), ('chess', '12:01:00', 2, 'insert', 'late');

TEST 'the loudest tags of the newest complete window';
ADVANCE WATERMARK TO '12:01:00';
ASSERT (SELECT tag, posts FROM trending WHERE window_end = TIMESTAMP '2000-01-01 12:01:00' ORDER BY posts DESC LIMIT 1)
  EQUALS ('rain', 3);

TEST 'three posts make a tag loud';
ASSERT loud (tag, posts, posts_a_person) EQUALS ('rain', 3, 1.5);
