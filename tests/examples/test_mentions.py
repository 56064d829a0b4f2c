"""The example of mentions: what it shows is what a count from scratch gives, without Spark."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.model.loops import iteration
from penstock.runtime.derived.loops.local import LocalLoop, shown_after
from tests.model.test_loops import components

EXAMPLE = Path(__file__).parents[2] / "examples" / "mentions"


def test_tags_follow_those_who_move_to_another_component():
    made: dict[str, Any] = runpy.run_path(str(EXAMPLE / "app.py"))
    posts: Any = runpy.run_path(str(EXAMPLE / "posts.py"))["posts"]
    app = made["make"]("posts")
    local = LocalLoop(iteration(app.streams["posts"], made["Mentions"]("user", "mentions")))
    shown: list[dict[str, Any]] = []
    seen: list[tuple[str, list[str], list[str]]] = []
    for number in range(4):
        new = posts(60, seed=number, people=80, tags=6).rows()
        seen += new
        places = [(number, "posts", 0, place) for place in range(len(new))]
        rows, refused, _ = local.take(local._frame([list(row) for row in new], places))
        assert not refused
        shown = shown_after(shown, rows)
        edges = [(user, other, 0) for user, mentions, _ in seen for other in (user, *mentions)]
        labels: dict[Any, Any] = components(edges)  # type: ignore[arg-type]
        assert {row["user"]: row["component"] for row in shown if row["tag"] is None} == labels
        found: Counter[tuple[str, str]] = Counter()
        for row in shown:
            if row["tag"] is not None:
                found[row["component"], row["tag"]] += row["posts"]
        assert found == Counter((labels[user], tag) for user, _, tags in seen for tag in tags)
