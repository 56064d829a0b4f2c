"""Where keyed state lives when it is large: immutable, sorted, memory-mapped files, merged where the work is done."""
