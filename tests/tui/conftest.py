"""A conversation that is ready to be talked to."""

from __future__ import annotations

import pytest

from tests.tui.talk import Talk


@pytest.fixture
def talk() -> Talk:
    return Talk()
