"""The history in files: each stream's accepted events by epoch, which nothing edits."""
