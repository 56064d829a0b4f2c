"""Replays the departures of 2013 into the directory `departures`, which app.py reads: replay.py [DAYS A SECOND]"""

import sys
from pathlib import Path

from penstock.dev.demos.flights import Replay, departures
from penstock.model.time import duration

days = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
Replay(departures(), Path("departures"), speed=int(days * duration("1 day")), is_read=lambda: True).run()
