LOAD 'app.sql';
START CLOCK AT '2024-05-02 00:00:00Z';

INSERT INTO page_views VALUES
  ('/home?from=mail', 'ann', '2024-04-30T21:59:59Z'),
  ('/home', 'ann', '2024-04-30T22:00:00Z'),
  ('/home?from=feed', 'bob', '2024-05-01T21:59:59Z'),
  ('/health/live', 'probe', '2024-05-01T10:00:00Z');

TEST 'the first of May begins at ten in the evening of the last of April, in UTC';
ASSERT views_by_day EQUALS
  ('/home', '2024-04-29T22:00:00Z', '2024-04-30T22:00:00Z', 1, 1),
  ('/home', '2024-04-30T22:00:00Z', '2024-05-01T22:00:00Z', 2, 2);

TEST 'a day of its own is asked for by its first instant';
ASSERT (SELECT url, views FROM views_by_day WHERE window_start = TIMESTAMP '2024-05-01 00:00:00+02:00')
  EQUALS ('/home', 2);

TEST 'a page view that comes a few hours late still counts';
ADVANCE WATERMARK TO '2024-05-02 06:00:00Z';
INSERT INTO page_views VALUES ('/home', 'cid', '2024-05-01T12:00:00Z');
ASSERT views_by_day (window_start, views, people) CONTAINS ('2024-04-30T22:00:00Z', 3, 3);
ASSERT LATE OF views_by_day IS EMPTY;
