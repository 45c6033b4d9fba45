"""A template that ends the prompt inside of a thinking block: whoever draws the answer is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.engine.messages import Ready
from tests import ggufs
from tests.engine.driver import Driver

OPENS = ggufs.CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


@pytest.mark.parametrize(("template", "thinks"), [(OPENS, True), (ggufs.CHATML, False), (None, False)])
def test_ready_says_where_answers_begin(tmp_path: Path, template: str | None, thinks: bool) -> None:
    driver = Driver(str(ggufs.noise(tmp_path / "model.gguf", template=template)), threads=1, n_ctx=256)
    try:
        (ready,) = driver.of(Ready)
        assert ready.thinks == thinks
    finally:
        driver.close()
