"""One epoch on Spark: what is read, the job, what its tasks do and send, and rows on which it fails."""
