"""The page of features names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "features.md"


def test_every_row_names_a_test_that_is_there() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    named = [re.search(r"`([\w/]+\.py)::(test_\w+)`", row) for row in rows if "shown by" not in row]
    assert len(named) > 40
    for row in named:
        assert row is not None, "a row without a test"
        file, test = row.groups()
        assert f"def {test}(" in (TESTS / file).read_text("utf-8"), f"{file} has no {test}"
