"""Writes `store.tar.xz`: run it in an empty directory with the version before (`git worktree add OLD 8d6c89c`).

PYTHONPATH=OLD/src:. python -m tests.store.before.make FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

from penstock.control import Live
from tests.store.before.app import BY_LENGTH, FIRST, SECOND, THIRD, define

#: What the test compares.
QUESTIONS = (
    "SELECT * FROM by_user ORDER BY 1, 2",
    "SELECT * FROM by_tier ORDER BY 1",
    "SELECT * FROM by_run ORDER BY 1",
    "SELECT * FROM by_length ORDER BY 1",
    "SELECT name, value FROM __counters ORDER BY 1",
    'SELECT kind, stream, view, "offset", reason, row FROM __refused ORDER BY 1, 2, 4',
    "SELECT kind, name, statement FROM __catalog ORDER BY 1, 2",
    "SELECT query, epoch, offsets FROM __progress ORDER BY 1",
    "SELECT stream, keep, since FROM __kept ORDER BY 1",
    "SELECT stream, kind, first, last, rows, checksum FROM __files ORDER BY 1, 2, 3",
)


def users(**tiers: str) -> None:
    Path("users").mkdir(exist_ok=True)
    rows = [json.dumps({"name": name, "tier": tier}) for name, tier in tiers.items()]
    Path("users/users.json").write_text("\n".join(rows) + "\n")


def refuse(rows: list[Any]) -> None:
    raise OSError("nobody listens")


def insert(live: Live, rows: str) -> None:
    live.execute(f"INSERT INTO clicks VALUES {rows}")
    live.catch_up()


def main(folder: Path) -> None:
    os.chdir(folder)
    users(ann="free", bob="gold")
    live = Live(define(refuse), Path("state"), tick=3600.0).start()
    insert(live, FIRST)
    live.run.savepoint("before")
    insert(live, SECOND)
    live.stop()
    users(ann="gold", bob="free", eve="free")
    live = Live(define(refuse), Path("state"), tick=3600.0).start()
    live.execute(BY_LENGTH)
    live.catch_up()
    insert(live, THIRD)
    live.catch_up()
    facts = {question: live.store.query(question).rows() for question in QUESTIONS}
    panes = live.store.panes(0, 1000).select("id", "commit", "view", "key", "start", "values", "kind", "timing")
    facts["panes"] = panes.rows()
    live.stop()
    Path("facts.json").write_text(json.dumps(facts, indent=1, default=str))
    with tarfile.open("store.tar.xz", "w:xz", preset=9) as packed:
        for name in ("state", "users", "facts.json"):
            packed.add(name, filter=plain)


def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what names this machine, and what a running app leaves."""
    if info.name.endswith(("/lock", "control.json")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    main(Path(sys.argv[1]))
