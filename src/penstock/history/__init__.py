"""The history: accepted events by commit, batch runs over them, audits, savepoints."""
