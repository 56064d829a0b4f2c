"""Files that only their owner reads, or a group: an app's directory holds all of its data.

The directory itself is closed to others, so everything in it is. A group gets in where the directory says so: it is
kept on the disk, by the directory's mode.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError

_OWN, _SHARED = 0o700, 0o2750  # what is made in a directory with the second mode belongs to its group too
_OTHERS: Final = 0o077
#: What not even the group reads: digests of tokens, and the key that signs code.
_SECRETS: Final = ("tokens.json", "signing.key")
#: The umask that this process was started with: what goes to others, such as the files of sinks, keeps to it.
_STARTED_WITH: Final = os.umask(_OTHERS)
os.umask(_STARTED_WITH)


def protect(directory: Path, group: str | None = None) -> str | None:
    """Closes a directory and all that it holds to others; with a group, its members may read. Says so if it was open.

    A directory that was given to a group stays so.
    """
    fresh = not directory.exists()
    try:
        directory.mkdir(mode=_OWN, parents=True, exist_ok=True)
        if group is None and (is_shared(directory) or not directory.stat().st_mode & _OTHERS):
            return None
        _apply(directory, group)
    except (PermissionError, NotADirectoryError, FileExistsError):
        return None  # another user's, or no directory: the writer reports that
    readers = "its owner" if group is None else f"its owner and the group '{group}'"
    return None if fresh else f"'{directory}' was open to others: now only {readers} can read it"


def is_shared(directory: Path) -> bool:
    """Whether a directory was given to a group, and is closed to all others."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    return bool(mode & stat.S_ISGID) and not mode & 0o027


def is_owned(path: Path) -> bool:
    """Whether a file or directory is this user's, and no other user can write it."""
    try:
        about = path.lstat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not stat.S_ISLNK(about.st_mode) and not about.st_mode & 0o022


def private_umask(group: bool = False) -> None:
    """From here on, what this process and those that it starts write is private, or readable by a group."""
    os.umask(0o027 if group else _OTHERS)


def public(path: Path) -> None:
    """Gives a file that is meant for others the mode that it would have without us."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_STARTED_WITH)


def _apply(directory: Path, group: str | None) -> None:
    for above, _, files in os.walk(directory):
        _change(Path(above), _OWN if group is None else _SHARED, group)
        for name in files:
            path = Path(above) / name
            if not path.is_symlink():
                own = path.stat().st_mode & 0o700
                _change(path, own if group is None or name in _SECRETS else own | (own & 0o500) >> 3, group)


def _change(path: Path, mode: int, group: str | None) -> None:
    try:
        if group is not None:
            shutil.chown(path, group=group)
        path.chmod(mode)
    except FileNotFoundError:  # another process has removed it meanwhile
        return
    except LookupError:
        raise PenstockError(f"there is no group '{group}' on this machine", hint="see: getent group") from None
