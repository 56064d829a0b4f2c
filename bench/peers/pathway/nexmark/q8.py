"""Who is new and sells in the same ten seconds."""

from datetime import timedelta

import pathway as pw
from nexmark.events import auctions, persons, read
from nexmark.rows import write

START = pw.this.time.dt.floor(timedelta(seconds=10)).dt.strftime("%Y-%m-%d %H:%M:%S")
born = persons.select(pw.this.name, person=pw.this.number, start=START)
every = auctions.select(pw.this.seller, start=START)
opened = every.groupby(pw.this.seller, pw.this.start).reduce(pw.this.seller, pw.this.start)
pairs = born.join(opened, born.person == opened.seller, born.start == opened.start)
write(read, pairs.select(born.start, born.person, born.name), "person")
