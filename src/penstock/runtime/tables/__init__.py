"""Tables that streams are joined with: versions, read by a rule."""
