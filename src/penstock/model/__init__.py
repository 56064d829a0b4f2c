"""What a view means: time, windows, triggers, watermarks, aggregates, and the reference interpreter. Pure Python."""
