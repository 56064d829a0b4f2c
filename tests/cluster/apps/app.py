"""The app of the cluster's tests, run by `penstock run`: that of the faults, and a view with functions of one's own.

What it reads and writes lies in the directory that PENSTOCK_TEST_ROOT names.
"""

from __future__ import annotations

import os
from pathlib import Path

from beside import tens

import penstock as ps
from tests.faults.app import define

ROOT = Path(os.environ["PENSTOCK_TEST_ROOT"])

app, events = define(ps.files(ROOT / "in", files_per_epoch=2))
app.view("tens", events.group_by("k").window(ps.custom(tens)).agg(n=ps.count(), s=ps.sum("v")).allow_late("9 days"))
app.sink("sessions", ps.to_jsonl(ROOT / "panes"))
