"""The process that the kill test kills: takes or restores a savepoint.

    python tests/history/savepoints/kill_at.py create DIRECTORY NAME STEP
    python tests/history/savepoints/kill_at.py restore DIRECTORY NAME STEP TARGET

A step is a call that makes something last: a file is renamed, copied or forced to disk. It ends itself before the one
of this number.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.history.savepoints import create, find, restore


def main() -> None:
    what, directory, name, left = sys.argv[1], Path(sys.argv[2]), sys.argv[3], [int(sys.argv[4])]

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return step

    os.rename, os.fsync, shutil.copyfile = dying(os.rename), dying(os.fsync), dying(shutil.copyfile)
    Path.rename = dying(Path.rename)  # type: ignore[method-assign]
    if what == "create":
        create(directory, name)
    else:
        restore(find(name, directory), Path(sys.argv[5]), force=True)


if __name__ == "__main__":
    main()
