"""The lake: everything that ever happened. The history holds each stream's events by epoch, and nothing edits it."""
