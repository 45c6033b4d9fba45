"""A loaded target with everything that hangs on it: decoder, drafters, template. Closed as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from localspec.chat.template import ChatTemplate, encode
from localspec.engine.environment import environment
from localspec.engine.messages import Environment, Generate, Load
from localspec.engine.numerics import numerics
from localspec.errors import LocalspecError, UsageError
from localspec.grammar.automaton import Grammar
from localspec.grammar.matcher import Alphabet, Matcher
from localspec.llama.model import LlamaModel
from localspec.model import ModelInfo
from localspec.spec.context import common_prefix
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters import DRAFTERS, canonical, create
from localspec.spec.length import Fixed
from localspec.spec.types import Drafter
from localspec.spec.verify import VERIFIERS


@dataclass(slots=True)
class Loaded:
    target: LlamaModel
    template: ChatTemplate
    decoder: SpeculativeDecoder
    numerics: str = "fast"
    drafters: dict[str, Drafter] = field(default_factory=dict)  # built when first used, kept: their index stays
    alphabet: Alphabet | None = None  # built when first used

    @classmethod
    def load(cls, command: Load, progress: Callable[[float], bool]) -> Loaded:
        target = LlamaModel.load(command.target, on_progress=progress)
        vocab = target.vocab
        template = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text)
        decoder = SpeculativeDecoder(target, create("off"), Fixed(0))
        strict = command.numerics == "strict"
        measured = numerics(target, deep=strict)
        target.info = replace(target.info, numerics=measured)
        if strict and measured is not None:
            decoder.rows = min(decoder.rows, measured.widest)
        return cls(target, template, decoder, command.numerics)

    def close(self) -> None:
        for drafter in self.drafters.values():
            drafter.close()
        self.target.close()

    @property
    def info(self) -> ModelInfo:
        return self.target.info

    @property
    def infos(self) -> tuple[ModelInfo, ...]:
        return (self.target.info,)

    @property
    def environment(self) -> Environment:
        return environment(self.infos, self.numerics)

    @property
    def pieces(self) -> Sequence[bytes]:
        return self.target.vocab.pieces

    @property
    def eog(self) -> frozenset[int]:
        return self.target.vocab.eog

    @property
    def methods(self) -> tuple[str, ...]:
        return ("off",) if self.info.speculation_off else tuple(DRAFTERS)

    @property
    def notice(self) -> str | None:
        """What strict numerics cost on this model, if that is more than nothing."""
        measured = self.info.numerics
        if self.numerics != "strict" or measured is None or measured.noise == 0.0:
            return None
        cost = f"at most {measured.widest - 1} tokens long" if measured.widest > 1 else "off"
        return (
            f"--numerics strict: drafts are {cost}, because of this model's numerics here: {measured}. "
            "On a processor, --flash-attn on with --cache-type-k q8_0 and --cache-type-v q8_0 is often identical."
        )

    def choose(self, method: str, draft_tokens: int | None = None, verifier: str | None = None) -> list[str]:
        """Use this method from the next round on. Returns what the user should know about it."""
        name, notices = canonical(method), []
        if name not in self.methods:
            notices.append(f"Method {name!r} is not used: {self.info.speculation_off}")
            name = "off"
        if name not in self.drafters:
            self.drafters[name] = create(name)
        self.decoder.drafter = self.drafters[name]
        if verifier is not None:
            self.decoder.verifier = VERIFIERS[verifier]
        if draft_tokens is not None:
            most = self.target.max_rows - 1
            if draft_tokens > most:
                notices.append(
                    f"Draft length {draft_tokens} is clamped to {most}, the most that one pass can check."
                )
            self.decoder.length = Fixed(min(draft_tokens, most))
        return notices

    def prompt(self, command: Generate) -> Prompt:
        vocab = self.target.vocab
        if command.prompt is not None:
            prompt = Prompt(vocab.tokenise(command.prompt, special=True, bos=vocab.add_bos))
        else:
            rendered = self.template.render(command.messages)
            prompt = Prompt(encode(rendered, command.messages, vocab), rendered.notices, rendered.stops)
        if not prompt.ids:
            raise LocalspecError("The prompt is empty.", "Type something; this model has no token to begin with.")
        prompt.ids.extend(command.resume)
        return prompt

    def constraint(self, command: Generate) -> Matcher | None:
        """What the answer's grammar allows first, or next if it goes on with a stopped one."""
        if command.grammar is None:
            return None
        if self.alphabet is None:
            self.alphabet = Alphabet(self.pieces, self.eog)
        state: Matcher | None = Matcher.begin(_grammar(command.grammar), self.alphabet)
        for token in command.resume:
            if state is None or (state := state.after(token)) is None:
                raise UsageError("The stopped answer does not follow the grammar.", "Ask for a new answer.")
        return state

    def common(self, prompt: list[int]) -> int:
        """How many tokens of the prompt stand in the cache already."""
        return common_prefix(self.target.cached, prompt[:-1])


@lru_cache(maxsize=4)
def _grammar(text: str) -> Grammar:
    """Kept between answers: it learns its states while it is used."""
    return Grammar(text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Where an answer starts from: token ids, what the user should know about them, and stop strings of a
    fallback template that the model itself may not end with."""

    ids: list[int]
    notices: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
