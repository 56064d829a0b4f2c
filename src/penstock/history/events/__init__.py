"""The lake: everything that ever happened. The master holds each stream's events by epoch, and nothing edits it."""
