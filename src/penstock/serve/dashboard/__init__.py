"""The dashboard: shows an app from its store, pushed to open pages once a second.

`read` asks the store for a `Snapshot`, once for all pages and only while one is open. Each panel draws snapshots and
asks nothing itself. `mount` starts NiceGUI with the first page that is asked for.
"""
