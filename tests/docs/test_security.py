"""docs/security.md lists every attack of tests/attacks."""

from __future__ import annotations

from tests.attacks.table import PAGE, attacks, with_table


def test_the_table_of_attacks_lists_every_attack() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page, attacks()), "run: python -m tests.attacks.table"
