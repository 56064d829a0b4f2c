"""How much memory a process has taken."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """The most memory that this process has had, in bytes.

    On Linux `ru_maxrss` is no answer: a process begins with that of the process that started it.
    """
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10
