"""Keyed operators other than views: joins of streams, processors and patterns, as steps on columns."""
