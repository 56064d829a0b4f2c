"""Scripts of SQL as tests: statements define an app, feed it events and time, and assert what its views answer.

`Play` is one run through a script, on an engine that needs no Spark unless it is asked for; `Script` runs a file.
"""

from penstock.scripts.play import Engine, Play
from penstock.scripts.script import Report, Script

__all__ = ["Engine", "Play", "Report", "Script"]
