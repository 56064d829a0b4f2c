"""Views over HTTP: lookups, SQL, events in, panes out, for a running app or from its directory alone.

A request passes `guard`, is read by `routes`, `streams` or `subscribe`, and is answered by processes of their own that
only read the store (`askers`). Nothing in here holds up an epoch.
"""
