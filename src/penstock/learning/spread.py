"""Numbers for keys that are new: they look random, and are the same for a key in every process."""

from __future__ import annotations

from hashlib import shake_128

import numpy as np
import polars as pl

from penstock.learning.weights import Array


def spread(keys: pl.Series, size: int, scale: float = 0.1, seed: str = "") -> Array:
    """`count` numbers between -scale and scale for each key.

    >>> spread(pl.Series(["ann", "bob"]), 3).shape
    (2, 3)
    """
    texts = keys.cast(pl.String).to_list()
    digests = b"".join(shake_128(f"{seed}\0{text}".encode()).digest(8 * size) for text in texts)
    numbers = np.frombuffer(digests, dtype="<u8").reshape(len(texts), size)
    return (numbers / 2**63 - 1.0) * scale
