"""How the processes of Spark trust each other: a shared secret, and encryption of what goes between them.

In one process, on YARN and on Kubernetes Spark makes the secret itself. The master and the workers of a standalone
cluster have one that apps must know: it comes from a file. `spark.authenticate=false` or PENSTOCK_INSECURE_CLUSTER=1
turns it off.

>>> security("local[2]", {})
{'spark.authenticate': 'true', 'spark.network.crypto.enabled': 'true'}
>>> security("spark://here:7077", {"spark.authenticate": "false"})
{}
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError

SECRET: Final = "spark.authenticate.secret"
SECRET_FILE: Final = "spark.authenticate.secret.file"
_FILE: Final = "PENSTOCK_CLUSTER_SECRET"
_CHANNELS: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
#: Files of shuffles and spills on the workers' disks.
_FILES: Final = {"spark.io.encryption.enabled": "true"}


def security(master: str, options: Mapping[str, str]) -> dict[str, str]:
    """The settings of an app at this master, whose user has set these options."""
    if options.get("spark.authenticate", "").lower() == "false":
        return {}
    if master.startswith("spark://") and os.environ.get("PENSTOCK_INSECURE_CLUSTER") == "1":
        return {"spark.authenticate": "false"}
    if re.fullmatch(r"local(\[.*\])?", master):
        return dict(_CHANNELS)
    if master.startswith("local-cluster"):
        return {**_CHANNELS, **_FILES, SECRET: secrets.token_hex(32)}
    if not master.startswith("spark://") or SECRET in options:
        return {**_CHANNELS, **_FILES}
    return {**_CHANNELS, **_FILES, SECRET: _shared(master, options.get(SECRET_FILE, os.environ.get(_FILE)))}


def known_secret(master: str) -> Path:
    """Where `penstock.dev.cluster` leaves the secret of a cluster on this machine, for apps of the same user."""
    name = re.sub(r"[^0-9A-Za-z]+", "-", master.removeprefix("spark://"))
    return Path(tempfile.gettempdir()) / f"penstock-clusters-{os.getuid()}" / name


def keep_secret(master: str) -> str:
    """Makes a secret for a cluster, and leaves it where only this user can read it."""
    path, secret = known_secret(master), secrets.token_hex(32)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _check_private(path.parent)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secret)
    return secret


def _shared(master: str, file: str | None) -> str:
    path = known_secret(master) if file is None else Path(file)
    if file is None and path.exists():
        _check_private(path.parent)
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PenstockError(
            f"the cluster at '{master}' has no secret that this app knows",
            detail=f"anyone who can connect to an app without a secret can run code in it; {path}: {error.strerror}",
            hint="set spark.authenticate and spark.authenticate.secret on its master and workers, then say "
            "--cluster-secret FILE; or, where only you reach it, --insecure-cluster",
        ) from None
    if not secret:
        raise PenstockError(f"the file of the cluster's secret is empty: {path}")
    return secret


def _check_private(folder: Path) -> None:
    about = folder.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise PenstockError(f"others can write to '{folder}', which holds secrets of clusters", hint="remove it")
