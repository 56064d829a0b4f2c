"""Where stores of these tests are: the same as in tests of the store."""

from __future__ import annotations

from tests.store.conftest import home as home  # a fixture
