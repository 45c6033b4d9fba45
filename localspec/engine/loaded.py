"""A loaded target with everything that hangs on it: decoder, drafters, template. Closed as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from localspec.chat.message import Message
from localspec.chat.template import ChatTemplate, encode
from localspec.chat.thinking import opens, reread, spelt
from localspec.engine import kept
from localspec.engine.beside import Earlier, companion_of, earlier_of
from localspec.engine.drafting import Companion, Drafting
from localspec.engine.environment import environment
from localspec.engine.messages import Environment, Generate, Load
from localspec.engine.numerics import numerics
from localspec.engine.placing import load_target
from localspec.errors import LocalspecError, UsageError
from localspec.grammar.automaton import Grammar
from localspec.grammar.matcher import Alphabet, Matcher
from localspec.llama import workers
from localspec.llama.model import LlamaModel
from localspec.methods import canonical
from localspec.model import ModelInfo
from localspec.spec.calibration import calibrate
from localspec.spec.context import common_prefix
from localspec.spec.controller import Controller
from localspec.spec.costs import Costs
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.auto import Auto
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.lossy import verifier as named_verifier
from localspec.spec.rules import is_lossy


@dataclass(slots=True)
class Loaded:
    target: LlamaModel
    draft: LlamaModel | None
    template: ChatTemplate
    decoder: SpeculativeDecoder
    drafting: Drafting
    written: Sequence[bytes]  # of each token in an answer: as `pieces`, with the marks of thoughts
    earlier: Earlier | None = None
    numerics: str = "fast"
    alphabet: Alphabet | None = None  # built when first used
    problems: tuple[str, ...] = ()  # what did not load or fit, and how the chat goes on all the same

    @classmethod
    def load(cls, command: Load, progress: Callable[[str, float], bool]) -> Loaded:
        """`progress(role, fraction)` may return False to cancel. A draft that fails to load is left out."""
        joined = workers.join(command.rpc)
        target, command, notes = load_target(command, partial(progress, "target"))
        try:
            companion, problems = companion_of(command, target, partial(progress, "draft"))
        except BaseException:
            target.close()
            raise
        vocab = target.vocab
        vocab.read()  # now, and not between the prompt and the first token of the first answer
        template = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text)
        decoder = SpeculativeDecoder(target, Off(), Fixed(0))
        strict = command.numerics == "strict"
        measured = numerics(target, deep=strict)
        target.info = replace(target.info, numerics=measured)
        if strict and measured is not None:
            decoder.rows = min(decoder.rows, measured.widest)
        earlier, lost = earlier_of(command, target)
        controller = Controller(_costs(target, companion))
        drafting = Drafting(target, companion, controller, earlier.corpus if earlier else None)
        draft = companion.model if companion else None
        return cls(
            target,
            draft,
            template,
            decoder,
            drafting,
            vocab.spelt(spelt(vocab.special_texts)),
            earlier,
            command.numerics,
            problems=(*joined, *notes, *problems, *lost),
        )

    def keep_costs(self) -> None:
        """So that the next start begins from knowledge; it ages, and is corrected by what is seen then."""
        kept.write(kept.place("costs", self.infos), self.drafting.controller.costs.to_dict())

    def close(self) -> None:
        self.drafting.close()
        if self.draft is not None:
            self.draft.close()
        self.target.close()

    @property
    def info(self) -> ModelInfo:
        return self.target.info

    @property
    def infos(self) -> tuple[ModelInfo, ...]:
        return tuple(model.info for model in (self.target, self.draft) if model is not None)

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
    def thinks(self) -> bool:
        """Does the template open a thinking block, so that answers begin inside of it?"""
        return opens(self.template.render((Message("user", "Hello"),)).text)

    @property
    def failing(self) -> tuple[str, ...]:
        """Drafters that failed too often and are left alone, each with its reason."""
        drafter = self.decoder.drafter
        return tuple(drafter.problems.values()) if isinstance(drafter, Auto) else ()

    @property
    def why(self) -> str:
        """The last choice of an automatic method, and its reason; empty otherwise."""
        drafter = self.decoder.drafter
        return drafter.why if isinstance(drafter, Auto) else ""

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

    def choose(self, method: str, draft_tokens: int | None, verifier: str | None = None) -> list[str]:
        """Use this method from the next round on. Returns what the user should know about it."""
        name, notices = canonical(method), []
        if name not in self.drafting.methods:
            notices.append(
                f"Method {name!r} is not used: {self.drafting.reasons.get(name, 'it is not available')}."
            )
            name = self.drafting.methods[0]
        most = self.target.max_rows - 1
        if draft_tokens is not None and draft_tokens > most > 0:
            notices.append(f"Draft length {draft_tokens} is clamped to {most}, the most that one pass can check.")
            draft_tokens = most
        if draft_tokens is not None and (notice := self.drafting.too_long(name, draft_tokens)):
            notices.append(notice)
        self.decoder.drafter, self.decoder.length = self.drafting.use(name, draft_tokens)
        if verifier is not None:
            self.decoder.verifier = named_verifier(verifier)
            if is_lossy(verifier):
                notices.append(
                    f"Lossy acceptance ({verifier}): the text no longer follows the model's distribution."
                )
        return notices

    def prompt(self, command: Generate) -> Prompt:
        vocab = self.target.vocab
        if command.prompt is not None:
            prompt = Prompt(vocab.tokenise(command.prompt, special=True, bos=vocab.add_bos))
        else:
            messages = tuple(map(reread, command.messages))
            rendered = self.template.render(messages)
            ids = encode(rendered, messages, vocab, self.written)
            prompt = Prompt(ids, rendered.notices, rendered.stops)
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


def _costs(target: LlamaModel, companion: Companion | None) -> Costs:
    """What rounds cost here when these models ran last, else what passes of a few widths take now."""
    models = (target, companion.model if companion else None)
    saved = kept.read(kept.place("costs", tuple(model.info for model in models if model is not None)))
    try:
        costs = Costs.from_dict(saved) if saved else Costs()
    except ValueError:
        costs = Costs()
    if costs.widest == 1 and not target.speculation_off:
        costs.begin_with(calibrate(target))
    return costs


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
