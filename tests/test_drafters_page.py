"""The example of docs/drafters.md is run as it stands: a drafter in one file keeps the text and drafts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Drafter, Round
from tests.fakes import FakeModel, never, rambling

PAGE = Path(__file__).parent.parent / "docs" / "drafters.md"


def example() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found["Bigram"]()


def written(drafter: Drafter) -> list[Round]:
    decoder = SpeculativeDecoder(FakeModel(rambling(20), 20), drafter, Fixed(6))
    prompt = [1, 2, 3]
    decoder.prefill(prompt, lambda done, total: None, lambda: False)
    return list(decoder.generate(prompt, Sampling(temperature=0), 1, never, 200))


def test_example_keeps_the_text_and_drafts() -> None:
    drafted = written(example())
    assert [t for r in drafted for t in r.emitted] == [t for r in written(Off()) for t in r.emitted]
    assert sum(r.accepted for r in drafted) > 10


def test_example_survives_a_context_that_went_another_way() -> None:
    drafter, rng = example(), None
    drafter.draft([1, 2, 3, 1], 4, Sampling(), rng)
    assert drafter.draft([1, 5, 1], 2, Sampling(), rng).tokens == (5, 1)
