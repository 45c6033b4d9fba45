"""A --speculative-config copied from vLLM's documentation works, or says why it can't."""

from __future__ import annotations

import pytest

from localspec.errors import UnknownName, UsageError
from localspec.vllm import settings


def test_ngram() -> None:
    text = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
    assert settings(text) == {"method": "ngram", "draft_tokens": 5, "lookup_max": 4, "lookup_min": 2}


def test_draft_model_alone_means_the_method() -> None:
    assert settings('{"model": "small.gguf", "num_speculative_tokens": 3}') == {
        "draft": "small.gguf",
        "draft_tokens": 3,
        "method": "draft",
    }


def test_tensor_parallel_draft_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="one device"):
        settings('{"method": "ngram", "draft_tensor_parallel_size": 2}')


@pytest.mark.parametrize("text", ["{", "[]", "5", '"ngram"'])
def test_what_is_no_object_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings(text)
    assert "ngram" in caught.value.hint


def test_misspelt_field_names_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        settings('{"num_speculativ_tokens": 5}')
    assert "num_speculative_tokens" in caught.value.hint
