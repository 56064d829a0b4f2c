LOAD 'app.sql';
START CLOCK AT '2024-05-04 12:00:00Z';

INSERT INTO page_views VALUES
  ('1', '/home', 'ann', '2024-05-03T10:10:00Z'),
  ('2', '/home', 'ann', '2024-05-03T10:20:00Z'),
  ('3', '/home', 'bob', '2024-05-03T10:30:00Z'),
  ('4', '/home', 'ann', '2024-05-03T11:05:00Z'),
  ('5', '/about', 'cid', '2024-04-30T10:00:00Z');

TEST 'a visitor counts once an hour';
ASSERT visitors_by_hour (url, window_start, visitors, views) EQUALS
  ('/home', '2024-05-03T10:00:00Z', 2, 3),
  ('/home', '2024-05-03T11:00:00Z', 1, 1),
  ('/about', '2024-04-30T10:00:00Z', 1, 1);

TEST 'an event that comes twice counts once';
INSERT INTO page_views VALUES ('3', '/home', 'bob', '2024-05-03T10:30:00Z');
ASSERT visitors_by_hour (url, window_start, views) CONTAINS ('/home', '2024-05-03T10:00:00Z', 3);
ASSERT DUPLICATES OF visitors_by_hour (id) EQUALS ('3');

TEST 'the last three days by the clock';
ASSERT (SELECT url, visitors FROM visitors_by_hour WHERE window_start >= now() - INTERVAL 3 DAYS ORDER BY visitors DESC)
  EQUALS ('/home', 2), ('/home', 1);

TEST 'over three days a visitor of several hours counts once';
ASSERT (SELECT visitors FROM visitors_of_three_days
        WHERE url = '/home' AND window_end = TIMESTAMP '2024-05-03 12:00:00') EQUALS (2);
