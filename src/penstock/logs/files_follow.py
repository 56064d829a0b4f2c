"""What goes along with a log of files on the driver: how many bytes each epoch takes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from penstock.logs.base import Folder, Follower


class FilesFollower(Follower):
    """Looks up the files of an epoch in Spark's list of those that it has read."""

    def __init__(self, listed: Folder) -> None:
        self._listed = listed

    def reading(self, offsets: str) -> None:
        """Each tenth list is that of all files ever read: it is left alone, and its epoch not measured."""
        self.taken = None
        with suppress(OSError, ValueError, KeyError):
            _, *files = (self._listed / str(json.loads(offsets)["logOffset"])).read_text().splitlines()
            paths = [unquote(urlparse(json.loads(file)["path"]).path) for file in files]
            self.taken = sum(Path(path).stat().st_size for path in paths)
