-- Nexmark in SQL: the same streams and views as in queries.py and joins.py, statement by statement. Only q6 stands
-- there alone: its aggregate is a Python function.
--
--   python examples/nexmark/events.py /tmp/nexmark --disorder 200
--   cp examples/nexmark/queries.sql /tmp/nexmark && cd /tmp/nexmark && penstock run queries.sql --until-caught-up
--   penstock query "SELECT * FROM q5 ORDER BY window_start"

CREATE STREAM persons (
  id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING, at TIMESTAMP, extra STRING,
  received TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 4 SECONDS
) FROM FILES 'persons' WITH (max_ahead = NULL);

CREATE STREAM auctions (
  id BIGINT, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, at TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT, extra STRING, received TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 4 SECONDS
) FROM FILES 'auctions' WITH (max_ahead = NULL);

CREATE STREAM bids (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP, extra STRING,
  received TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 4 SECONDS
) FROM FILES 'bids' WITH (max_ahead = NULL);

CREATE TABLE side_input (number BIGINT, value STRING, since TIMESTAMP)
  FROM FILES 'side_input' WITH (key = 'number', valid_from = 'since');

-- Joins

-- Bids with the auctions that they are for, whichever comes first. Some bids come before their auction.
CREATE STREAM bids_of_auctions WITH (max_ahead = NULL) AS
  SELECT * FROM (SELECT auction, bidder, price, channel, at FROM bids) AS b
  JOIN (SELECT seller, category, item, expires, id AS auction, at AS opens FROM auctions) AS a
  ON b.auction = a.auction AND a.opens BETWEEN b.at - INTERVAL 1 MINUTE AND b.at + INTERVAL 10 SECONDS;

-- Auctions of category 10 with their sellers, where these live in some states.
CREATE STREAM sellers WITH (max_ahead = NULL) AS
  SELECT * FROM (SELECT seller, id AS auction FROM auctions WHERE category = 10) AS a
  JOIN (SELECT name, city, state, id AS seller FROM persons WHERE state IN ('OR', 'ID', 'CA')) AS p
  ON a.seller = p.seller AND p.at BETWEEN a.at - INTERVAL 10 MINUTES AND a.at + INTERVAL 10 SECONDS;

-- Rows

-- Who sells in category 10 in some states.
CREATE STREAM q3 AS SELECT name, city, state, auction FROM sellers;

-- Bids for auctions of category 10, with the auction.
CREATE STREAM q20 AS SELECT * FROM bids_of_auctions WHERE category = 10;

-- Bids as they are.
CREATE STREAM q0 AS SELECT auction, bidder, price, at, extra FROM bids;

-- Prices in another currency.
CREATE STREAM q1 AS SELECT auction, bidder, CAST(price AS DOUBLE) * 0.908D AS price, at FROM bids;

-- Bids for some auctions.
CREATE STREAM q2 AS SELECT auction, price FROM bids WHERE auction % 123 = 0;

-- All bids, by day and minute: the columns that files are sorted into.
CREATE STREAM q10 AS
  SELECT auction, bidder, price, at, extra, CAST(at AS DATE) AS day, date_format(at, 'HH:mm') AS minute FROM bids;

-- Bids with the value of a table, as of the processing time of the bid, as it was recorded.
CREATE STREAM q13 AS
  SELECT b.auction, b.bidder, b.price, b.at, s.value
  FROM RETIME(bids, received) AS b JOIN side_input FOR SYSTEM_TIME AS OF b.received AS s ON b.auction % 10000 = s.number;

-- Bids in a band of prices, with the time of day and how many letters c they carry.
CREATE STREAM q14 AS
  SELECT auction, bidder, CAST(price AS DOUBLE) * 0.908D AS price,
         CASE WHEN hour(at) >= 8 AND hour(at) <= 18 THEN 'dayTime'
              WHEN hour(at) <= 6 OR hour(at) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS part,
         at, length(extra) - length(replace(extra, 'c', '')) AS c
  FROM bids
  WHERE CAST(price AS DOUBLE) * 0.908D > 1000000 AND CAST(price AS DOUBLE) * 0.908D < 50000000;

-- The number of a bid's channel, from its name or from its address.
CREATE STREAM q21 AS
  SELECT * FROM (
    SELECT auction, bidder, price, channel,
           CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                               WHEN 'baidu' THEN '3'
                               ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
    FROM bids)
  WHERE channel_id IS NOT NULL;

-- The three directories of a bid's address.
CREATE STREAM q22 AS
  SELECT auction, bidder, price, channel,
         split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
  FROM bids;

CREATE SINK q0_rows FROM q0 INTO FILES 'out/q0';
CREATE SINK q1_rows FROM q1 INTO FILES 'out/q1';
CREATE SINK q2_rows FROM q2 INTO FILES 'out/q2';
CREATE SINK q10_rows FROM q10 INTO FILES 'out/q10' WITH (format = 'parquet');
CREATE SINK q13_rows FROM q13 INTO FILES 'out/q13';
CREATE SINK q14_rows FROM q14 INTO FILES 'out/q14';
CREATE SINK q21_rows FROM q21 INTO FILES 'out/q21';
CREATE SINK q22_rows FROM q22 INTO FILES 'out/q22';

-- Views

-- The auctions with the most bids of ten seconds, every two seconds, with ties: counts, the auctions of each count, and
-- those of the highest.
CREATE CONTINUOUS VIEW q5_counts AS
  SELECT auction, window_start, window_end, count(*) AS bids
  FROM HOP(bids, at, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
  GROUP BY auction, window_start, window_end
  EMIT RETRACTING;

CREATE CONTINUOUS VIEW q5_levels AS
  SELECT bids, window_start, window_end, collect_set(auction) AS auctions
  FROM q5_counts
  GROUP BY bids, window_start, window_end
  EMIT RETRACTING;

CREATE CONTINUOUS VIEW q5 AS
  SELECT window_start, window_end, max(bids) AS bids, max_by(auctions, bids) AS auctions
  FROM q5_levels
  GROUP BY window_start, window_end;

-- The highest bids of ten seconds, with ties.
CREATE CONTINUOUS VIEW q7 AS
  SELECT window_start, window_end, max(price) AS price,
         top(1, price, concat_ws(' ', CAST(auction AS STRING), CAST(bidder AS STRING)), ties => true) AS bids
  FROM TUMBLE(bids, at, INTERVAL 10 SECONDS)
  GROUP BY window_start, window_end;

-- Who is new and sells at once: persons with auctions that they open in the same ten seconds. In one window the two
-- sides need no join: they are counted together, and those are shown that have both.
CREATE CONTINUOUS VIEW q8 AS
  SELECT person, window_start, window_end,
         max(name) AS name, count(*) FILTER (WHERE is_new) AS persons, count(*) FILTER (WHERE NOT is_new) AS auctions
  FROM TUMBLE((SELECT name, id AS person, true AS is_new FROM persons
               UNION ALL
               SELECT CAST(NULL AS STRING) AS name, seller AS person, false AS is_new FROM auctions),
              at, INTERVAL 10 SECONDS)
  GROUP BY person, window_start, window_end
  HAVING count(*) FILTER (WHERE is_new) > 0 AND count(*) FILTER (WHERE NOT is_new) > 0;

-- How many bids a person makes without a pause of ten seconds.
CREATE CONTINUOUS VIEW q11 AS
  SELECT bidder, window_start, window_end, count(*) AS bids
  FROM SESSION(bids, at, INTERVAL 10 SECONDS)
  GROUP BY bidder, window_start, window_end;

-- How many bids of a person come in ten seconds of processing time, as it was recorded.
CREATE CONTINUOUS VIEW q12 AS
  SELECT bidder, window_start, window_end, count(*) AS bids
  FROM TUMBLE(bids, received, INTERVAL 10 SECONDS)
  GROUP BY bidder, window_start, window_end;

-- Bids, bidders and auctions of a day, in all and by band of price.
CREATE CONTINUOUS VIEW q15 AS
  SELECT window_start, window_end,
         count(*) AS bids,
         count(*) FILTER (WHERE price < 10000) AS bids_low,
         count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS bids_middle,
         count(*) FILTER (WHERE price >= 1000000) AS bids_high,
         count(DISTINCT bidder) AS bidders,
         count(DISTINCT bidder) FILTER (WHERE price < 10000) AS bidders_low,
         count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS bidders_middle,
         count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS bidders_high,
         count(DISTINCT auction) AS auctions,
         count(DISTINCT auction) FILTER (WHERE price < 10000) AS auctions_low,
         count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS auctions_middle,
         count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS auctions_high
  FROM CALENDAR(bids, at, 'day')
  GROUP BY window_start, window_end;

-- The same by channel, with the last minute in which it was seen.
CREATE CONTINUOUS VIEW q16 AS
  SELECT channel, window_start, window_end,
         max(date_format(at, 'HH:mm')) AS minute,
         count(*) AS bids,
         count(*) FILTER (WHERE price < 10000) AS bids_low,
         count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS bids_middle,
         count(*) FILTER (WHERE price >= 1000000) AS bids_high,
         count(DISTINCT bidder) AS bidders,
         count(DISTINCT bidder) FILTER (WHERE price < 10000) AS bidders_low,
         count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS bidders_middle,
         count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS bidders_high,
         count(DISTINCT auction) AS auctions,
         count(DISTINCT auction) FILTER (WHERE price < 10000) AS auctions_low,
         count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS auctions_middle,
         count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS auctions_high
  FROM CALENDAR(bids, at, 'day')
  GROUP BY channel, window_start, window_end;

-- What was bid for an auction on a day.
CREATE CONTINUOUS VIEW q17 AS
  SELECT auction, window_start, window_end,
         count(*) AS bids,
         count(*) FILTER (WHERE price < 10000) AS bids_low,
         count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS bids_middle,
         count(*) FILTER (WHERE price >= 1000000) AS bids_high,
         min(price) AS lowest, max(price) AS highest, avg(price) AS mean, sum(price) AS total
  FROM CALENDAR(bids, at, 'day')
  GROUP BY auction, window_start, window_end;

-- The last bid of a person for an auction.
CREATE CONTINUOUS VIEW q18 AS
  SELECT bidder, auction, last(price) AS price, last(channel) AS channel, last(url) AS url, last(at) AS at,
         last(extra) AS extra
  FROM bids
  GROUP BY bidder, auction;

-- The ten highest bids for an auction.
CREATE CONTINUOUS VIEW q19 AS
  SELECT auction, top(10, price) AS prices, top(10, price, bidder) AS bidders
  FROM bids
  GROUP BY auction;

-- The bid that wins an auction: the highest while it is open, and the earliest of those.
CREATE CONTINUOUS VIEW q9 AS
  SELECT auction, seller, category, expires, max(price) AS price,
         max_by(bidder, price * 100000000 - (unix_millis(at) - unix_millis(opens))) AS bidder,
         max_by(at, price * 100000000 - (unix_millis(at) - unix_millis(opens))) AS at
  FROM bids_of_auctions WHERE at >= opens AND at <= expires
  GROUP BY auction, seller, category, expires
  EMIT RETRACTING;

-- What auctions of a category fetch on average: a view over the winning bids, which change while auctions run.
CREATE CONTINUOUS VIEW q4 AS SELECT category, avg(price) AS mean, count(*) AS auctions FROM q9 GROUP BY category;
