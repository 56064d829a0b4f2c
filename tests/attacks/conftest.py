"""What the attacks share: the store and the servers of tests/serve.

Every test in this folder is an attack. Its docstring is one line, "what the attacker does: what happens", and becomes a
row of docs/security.md: run `python -m tests.attacks.table` after adding one.
"""

from __future__ import annotations

from tests.serve.conftest import client, filled, serving, shards, store_url

__all__ = ["client", "filled", "serving", "shards", "store_url"]
