"""Whether an assertion of a script holds: the rows that are there against those that it names."""

from __future__ import annotations

from penstock.scripts.values import comparable, expected, literal
from penstock.sql import statements as sql
from penstock.sql.constants import value


def judge(statement: sql.Assert, columns: list[str], left: list[list[object]]) -> None:
    """Compares rows with what was said; the error shows the first row that differs."""
    source = statement.source
    got = "\n".join(f"    ({', '.join(map(literal, row))})" for row in left) or "    nothing"
    ordered = statement.what in ("PANES", "SELECT")
    for number, said in enumerate(statement.rows):
        if len(said) != len(columns):
            raise source.error(
                f"the row has {len(said)} values for {len(columns)} columns", said[0],
                detail=f"they are {', '.join(columns)}",
            )  # fmt: skip
        values = [value(source, piece) for piece in said]
        candidates = left[:1] if ordered and statement.how == "EQUALS" else left
        found = next((row for row in candidates if _same(values, row)), None)
        if found is None:
            raise source.error(f"row {number + 1} is not there", said[0], detail=f"there are\n{got}")
        left.remove(found)
    if left and statement.how == "EQUALS":
        first = f"({', '.join(map(literal, left[0]))})"
        raise source.error(f"there is one more row: {first}", statement.whole, detail=f"there are\n{got}")


def _same(said: list[object], row: list[object]) -> bool:
    return all(expected(one, other) == comparable(other) for one, other in zip(said, row, strict=True))
