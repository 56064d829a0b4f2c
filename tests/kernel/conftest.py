"""The kernel's random tests use small batches: grouping must take the same ways there as in large ones."""

import pytest

from penstock.kernel import group


@pytest.fixture(autouse=True, scope="session")
def small_batches_are_packed():
    before = group.PACK_COLUMNS, group.PACK_FROM
    group.PACK_COLUMNS, group.PACK_FROM = 2, 2
    yield
    group.PACK_COLUMNS, group.PACK_FROM = before
