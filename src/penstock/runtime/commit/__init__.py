"""What becomes of an epoch or a tick: views step, and all of it is one commit."""
