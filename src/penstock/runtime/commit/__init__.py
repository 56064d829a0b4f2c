"""The commit of an epoch or a tick: operators and views step, and all of it is one transaction."""
