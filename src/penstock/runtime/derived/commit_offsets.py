"""Offsets in the commits of streams, as the driver and the processes that plan for Spark know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

#: What a row stands for, if not for what time it was (`times`): files to read.
FILES: Final = "files"
SCHEMA: Final = "kind string, data binary"

Offset: TypeAlias = dict[str, int]
BEGIN: Final[Mapping[str, int]] = {"commit": 0, "events": 0}
