"""Word count from raw lines, in Python: the view `word_count` of app.sql, with a function in the place of its SQL."""

import re

import penstock as ps

app = ps.App("word_count")
lines = app.stream("lines", ps.files("lines"), schema="line string, at timestamp", event_time="at")
words = lines.flat_map(lambda row: re.findall("[a-z]+", (row.line or "").lower()), schema="word string")
app.view("word_count", words.group_by("word").agg(n=ps.count()))
