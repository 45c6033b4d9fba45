"""One answer from a strict model: text, accounts, limits and ends. The exact rule has test_verify.py."""

from __future__ import annotations

import pytest

from localspec.errors import PromptTooLong, SamplingError, UsageError
from localspec.spec.drafters import create
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.settings import Sampling
from localspec.spec.stats import fold
from localspec.spec.types import Finish, Token
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeModel, ScriptedDrafter, at, noise, rambling, saying
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, own_draft, ready, text

# What comes out


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_lookup_gives_the_text_of_plain_decoding(seed: int, k: int) -> None:
    script = rambling(V, seed)
    plain = answer(ready(FakeModel(script, V), Off()), max_tokens=200)
    lookup = answer(ready(FakeModel(script, V), Lookup(), k=k), max_tokens=200)
    assert text(lookup) == text(plain)
    assert fold(lookup).accepted > 20, "without accepted drafts this proves nothing"


@pytest.mark.parametrize("last_n", [3, 6, -1])
def test_penalties_count_the_drafted_tokens_before_each_position(last_n: int) -> None:
    sampling = Sampling(
        temperature=0, repeat_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2, penalty_last_n=last_n
    )
    script = rambling(V, seed=3)
    plain = answer(ready(FakeModel(script, V), Off()), sampling=sampling)
    drafted = answer(ready(FakeModel(script, V), own_draft(script), k=8), sampling=sampling)
    assert text(drafted) == text(plain)
    assert fold(drafted).acceptance_rate == 1
    unpenalised = answer(ready(FakeModel(script, V), Off()))
    assert text(plain) != text(unpenalised)


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("sampling", [GREEDY, WARM, Sampling(temperature=1.2, top_k=0, top_p=1, min_p=0)])
def test_a_target_that_is_its_own_draft_accepts_everything(verifier: str, sampling: Sampling) -> None:
    script = noise(V)
    decoder = ready(FakeModel(script, V), own_draft(script), verifier=verifier)
    rounds = answer(decoder, sampling=sampling, max_tokens=300)
    assert all(r.accepted == len(r.drafted) for r in rounds)
    assert len(text(rounds)) == 300
    assert len(rounds) == 60


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_row_accounts_for_its_tokens(verifier: str) -> None:
    model, drafter = FakeModel(noise(V), V), own_draft(noise(V, seed=1))
    rounds = answer(ready(model, drafter, verifier=verifier), sampling=WARM, ending=at(0), max_tokens=None)
    for r in rounds:
        assert len(r.emitted) == r.accepted + 1 - r.cut == len(r.provenance)
        assert r.emitted[: r.accepted] == r.drafted[: r.accepted]
        assert len(r.p) == len(r.q) == r.tested <= len(r.drafted) <= r.limit
        assert all(0 <= p <= 1 and 0 < q <= 1 for p, q in zip(r.p, r.q, strict=True))
    stats = fold(rounds)
    assert stats.emitted == stats.accepted + stats.rounds - stats.cut


def test_a_round_is_one_pass_of_the_target() -> None:
    model = FakeModel(rambling(V), V)
    decoder = ready(model, Lookup())
    model.decodes.clear()
    rounds = answer(decoder)
    assert model.decodes == [(1 + len(r.drafted),) * 2 for r in rounds]


# Limits


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("method", ["self", "lookup", "off"])
def test_the_limit_is_exact_however_long_the_drafts(method: str, max_tokens: int) -> None:
    drafter = own_draft(noise(V)) if method == "self" else create(method)
    rounds = answer(ready(FakeModel(noise(V), V), drafter, k=8), max_tokens=max_tokens)
    assert len(text(rounds)) == max_tokens
    assert rounds[-1].finish is Finish.LENGTH
    assert [r.finish for r in rounds[:-1]] == [None] * (len(rounds) - 1)


@pytest.mark.parametrize("length", range(20, 32))
@pytest.mark.parametrize("method", ["self", "off"])
def test_a_full_context_ends_the_answer(method: str, length: int) -> None:
    prompt = [token % V for token in range(length)]
    drafter = own_draft(noise(V)) if method == "self" else Off()
    rounds = answer(ready(FakeModel(noise(V), V, n_ctx=32), drafter, prompt, k=8), prompt, max_tokens=None)
    assert length + len(text(rounds)) == 32
    assert rounds[-1].finish is Finish.CONTEXT


@pytest.mark.parametrize(("max_tokens", "finish"), [(24, Finish.LENGTH), (25, Finish.LENGTH), (26, Finish.CONTEXT)])
def test_the_nearer_of_limit_and_context_gives_the_reason(max_tokens: int, finish: Finish) -> None:
    rounds = answer(ready(FakeModel(noise(V), V, n_ctx=32), own_draft(noise(V))), max_tokens=max_tokens)
    assert rounds[-1].finish is finish
    assert len(text(rounds)) == min(max_tokens, 32 - len(PROMPT))


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(PromptTooLong, match=r"32 tokens.*holds 32"):
        ready(FakeModel(noise(V), V, n_ctx=32), Off(), [1] * 32)


def test_an_empty_prompt_and_an_empty_budget_are_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        ready(FakeModel(noise(V), V), Off(), ())
    with pytest.raises(UsageError, match="--max-tokens is 0"):
        answer(ready(FakeModel(noise(V), V), Off()), max_tokens=0)


def test_a_token_that_the_model_does_not_have_is_refused_before_anything_is_read() -> None:
    model = FakeModel(noise(V), V)
    decoder = ready(model, Off())
    with pytest.raises(SamplingError, match="--ban-token is 12"):
        answer(decoder, sampling=Sampling(banned=(12,)))
    assert list(model.cached) == list(PROMPT[:-1])


@pytest.mark.parametrize(("n_batch", "max_rows"), [(8, 3), (3, 8)])
def test_drafts_fit_the_rows_and_the_batch_of_the_model(n_batch: int, max_rows: int) -> None:
    narrow = FakeModel(noise(V), V, n_batch=n_batch, max_rows=max_rows)
    rounds = answer(ready(narrow, own_draft(noise(V)), k=8))
    assert {r.limit for r in rounds[:-1]} == {2}


# Ends


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("place", range(11))
def test_an_end_token_cuts_everything_to_the_same_token(verifier: str, place: int) -> None:
    """k = 4: the end stands on every place of a block in turn, as a drafted token and as the target's own."""
    said = [*range(1, 12)]
    end = said[place]
    script = saying(said, V, len(PROMPT))
    drafter = own_draft(script)
    model = FakeModel(script, V)
    rounds = answer(ready(model, drafter, verifier=verifier), ending=at(end), max_tokens=None)
    assert text(rounds) == said[: place + 1]
    assert rounds[-1].finish is Finish.STOP
    assert rounds[-1].cut == (place % 5 != 4)
    assert rounds[-1].tested == len(rounds[-1].p) == rounds[-1].accepted
    assert fold(rounds).accepted == place + 1 - (place + 1) // 5


def test_an_end_reached_on_the_last_token_of_the_budget_is_an_end() -> None:
    script = saying([1, 2, 3, 4], V, len(PROMPT))
    rounds = answer(ready(FakeModel(script, V), own_draft(script)), ending=at(4), max_tokens=4)
    assert rounds[-1].finish is Finish.STOP


def test_a_rejected_end_token_does_not_end() -> None:
    script = saying([1, 2, 3, 4, 5], V, len(PROMPT))
    rounds = answer(ready(FakeModel(script, V), ScriptedDrafter(lambda _: (9,))), ending=at(9), max_tokens=5)
    assert text(rounds) == [1, 2, 3, 4, 5]
    assert fold(rounds).accepted == 0


def test_the_ending_is_asked_once_for_each_token_that_stays() -> None:
    asked: list[Token] = []

    def ending(token: Token) -> Finish | None:
        asked.append(token)
        return Finish.STOP_STRING if len(asked) == 33 else None

    rounds = answer(ready(FakeModel(noise(V), V), own_draft(noise(V))), ending=ending)
    assert asked == text(rounds)
    assert rounds[-1].finish is Finish.STOP_STRING
