"""A loaded target with everything that hangs on it: decoder, drafters, template. Closed as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from localspec.chat.template import ChatTemplate, encode
from localspec.engine.messages import Generate, Load
from localspec.errors import LocalspecError
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
    drafters: dict[str, Drafter] = field(default_factory=dict)  # built when first used, kept: their index stays

    @classmethod
    def load(cls, command: Load, progress: Callable[[float], bool]) -> Loaded:
        target = LlamaModel.load(command.target, on_progress=progress)
        vocab = target.vocab
        template = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text)
        return cls(target, template, SpeculativeDecoder(target, create("off"), Fixed(0)))

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
    def pieces(self) -> Sequence[bytes]:
        return self.target.vocab.pieces

    @property
    def eog(self) -> frozenset[int]:
        return self.target.vocab.eog

    @property
    def methods(self) -> tuple[str, ...]:
        return ("off",) if self.info.speculation_off else tuple(DRAFTERS)

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

    def common(self, prompt: list[int]) -> int:
        """How many tokens of the prompt stand in the cache already."""
        return common_prefix(self.target.cached, prompt[:-1])


@dataclass(frozen=True, slots=True)
class Prompt:
    """Where an answer starts from: token ids, what the user should know about them, and stop strings of a
    fallback template that the model itself may not end with."""

    ids: list[int]
    notices: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
