"""Ends the process of a command as Python does, but without taking down all that is loaded: that takes a while."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn


def end_process(code: str | int | None) -> NoReturn:
    """Waits for threads, runs what is registered for the end, and ends with the code of a `SystemExit`.

    A text is the message of an error.
    """
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    failed = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            failed = True
    os._exit(1 if isinstance(code, str) else 120 if failed and not code else code or 0)
