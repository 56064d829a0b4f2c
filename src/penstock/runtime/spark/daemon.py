"""The process from which Spark forks its Python workers: it has loaded the kernel, so that each worker need not.

Spark starts it by its name, on the first task that runs Python, and every worker is a copy of it. Nothing may run here
but imports: a thread does not survive a fork. NumPy starts none.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from typing import Final

#: What the tasks of epochs use.
_LOADED: Final = (
    "pyspark.worker",
    "pyarrow.parquet",
    "penstock.runtime.epoch.job",
    "penstock.sources.formats.json_lines",
)
#: Parameters of mallopt: up to which size free memory is kept, and from which size on a block has pages of its own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGE = 64 << 20, 32 << 20


def load() -> None:
    """Imports what tasks use. What is missing or broken is reported by the task that needs it."""
    keep_freed_memory()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with redirect_stdout(sys.stderr):  # Spark reads a port from what this process prints
        for name in _LOADED:
            with suppress(Exception):
                import_module(name)
    gc.collect()
    gc.freeze()  # else the collector of each worker would write to, and so copy, the pages that they share


def keep_freed_memory() -> None:
    """Lets glibc keep freed blocks for the next ones; other C libraries are left as they are.

    Files are read in blocks of about a megabyte. Giving their pages back and taking new ones each time was a fifth of
    the processor time of reading JSON.
    """
    with suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGE)
        set_option(_TRIM_THRESHOLD, _KEPT)


if __name__ == "__main__":
    from pyspark.daemon import manager

    load()
    manager()
