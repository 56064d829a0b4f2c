"""Logs: a line for people, or a line of JSON for machines. Neither holds what came in a URL, a header or a body."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]
_NAMES: Final = ("penstock", "uvicorn")


class JsonLines(logging.Formatter):
    """One object a line: when, how bad, who, what; of a request also what it was and how long it took."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "fields", {}) | {"at": at}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(form: LogFormat, access: bool) -> None:
    """Writes the logs of Penstock and of its server to the standard error; `access`: also each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in _NAMES:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "penstock" else logging.WARNING)
    logging.getLogger("penstock.access").setLevel(logging.INFO if access else logging.WARNING)
