"""Words of lines, counted by hour."""

from pyspark.sql import functions as F
from session import read, run, session

spark = session()
lines = read(spark, "line string, at timestamp").withWatermark("at", "5 seconds")
words = lines.select(F.explode(F.split("line", " ")).alias("word"), "at")
counts = words.groupBy("word", F.window("at", "1 hour").alias("w")).agg(F.count("*").alias("n"))
rows = counts.select("word", F.unix_micros("w.start").alias("start"), "n")
run(rows, "word TEXT, start INTEGER, n INTEGER", "word, start")
