"""Whether an assertion of a script holds: the rows that are there against those that it names."""

from __future__ import annotations

from penstock.scripts.values import comparable, expected, literal
from penstock.sql import statements as sql
from penstock.sql.constants import value


def judge(statement: sql.Assert, columns: list[str], left: list[list[object]]) -> None:
    """Compares rows with what the script expects; the error shows the first row that differs."""
    source = statement.source
    got = "\n".join(f"    ({', '.join(map(literal, row))})" for row in left) or "    nothing"
    ordered = statement.what in ("PANES", "SELECT")
    for number, expected_row in enumerate(statement.rows):
        if len(expected_row) != len(columns):
            raise source.error(
                f"the row has {len(expected_row)} values for {len(columns)} columns", expected_row[0],
                detail=f"they are {', '.join(columns)}",
            )  # fmt: skip
        values = [value(source, piece) for piece in expected_row]
        candidates = left[:1] if ordered and statement.how == "EQUALS" else left
        match = next((row for row in candidates if _same(values, row)), None)
        if match is None:
            raise source.error(f"row {number + 1} is missing", expected_row[0], detail=f"there are\n{got}")
        left.remove(match)
    if left and statement.how == "EQUALS":
        first = f"({', '.join(map(literal, left[0]))})"
        raise source.error(f"unexpected row: {first}", statement.whole, detail=f"there are\n{got}")


def _same(expected_row: list[object], row: list[object]) -> bool:
    return all(expected(one, other) == comparable(other) for one, other in zip(expected_row, row, strict=True))
