"""A store that the version before has written."""
