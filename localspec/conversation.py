"""The state of the chat: a fold over engine events and over what the user asks for. Knows no widget and no clock.

The screen reads this state and draws it; it changes it only through the methods here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from localspec.chat.answer import Answer
from localspec.chat.session import Asked, Node, Session
from localspec.engine.client import EngineClient
from localspec.engine.messages import (
    Died,
    Emitted,
    Environment,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loading,
    Notice,
    Prefill,
    Ready,
    Stop,
    Use,
)
from localspec.spec.settings import Sampling
from localspec.spec.stats import Stats, fold
from localspec.spec.types import Finish

DRAFT_LENGTHS = (None, 1, 2, 3, 4, 6, 8, 12, 16)  # None: automatic
OFF = "off"


@dataclass(frozen=True, slots=True)
class Options:
    """`title` names the model for people: the pair's title or the file's name. Names inside of files are often
    those of a training run."""

    title: str
    method: str
    draft_tokens: int | None  # None: chosen each round
    sampling: Sampling
    verifier: str = "block"
    lookup: tuple[int, int] = (2, 32)
    max_tokens: int | None = None
    system: str | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something said to the user in the transcript, after the node `after`."""

    id: int
    after: Node
    text: str
    hint: str = ""
    error: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """A prompt that got no answer and goes back to the editor; it was an edit of `instead_of`, if any."""

    text: str
    instead_of: Node | None


class Conversation:
    def __init__(self, client: EngineClient, load: Load, options: Options) -> None:
        self.options = options
        self.session = Session(options.system)
        self.method = options.method
        self.draft_tokens = options.draft_tokens
        self.engine: Loading | Ready | Failed | Died = Loading(0.0)
        self.environment: Environment | None = None
        self.running: Node | None = None
        self.stopping = False
        self.reading: Prefill | None = None
        self.queue: list[str] = []
        self.paused = False
        self.notes: list[Note] = []
        self.why = ""  # the last choice of an automatic method, and its reason
        self.plain = Stats()  # over all rounds in which nothing was drafted: what speculation is compared with
        self._client = client
        self._load = load
        self._returned: list[Returned] = []

    # What the screen reads

    @property
    def methods(self) -> tuple[str, ...]:
        return self.engine.methods if isinstance(self.engine, Ready) else ()

    @property
    def answers(self) -> list[Node]:
        """The answers on the active path."""
        return [node for node in self.session.path if node.answer]

    @property
    def shown(self) -> Answer | None:
        """The answer whose figures are on screen: the running one, else the last."""
        return self.answers[-1].answer if self.answers else None

    @property
    def context(self) -> tuple[int, int] | None:
        """(tokens used, tokens that fit), once a model is loaded."""
        if not isinstance(self.engine, Ready):
            return None
        answer = self.shown
        used = answer.prompt_tokens + len(answer.token_ids) if answer else 0
        return used, self.engine.target.n_ctx

    def take_returned(self) -> Returned | None:
        return self._returned.pop(0) if self._returned else None

    # What the user does

    def start(self) -> None:
        """Load the model; again, after it could not be loaded or the engine died."""
        if self.running:
            self._break_off("the model was reloaded")
        self.engine = Loading(0.0)
        self._client.start()
        self._client.send(self._load)

    def submit(self, text: str) -> None:
        """Ask now, or queue behind what is running. After a failure the new prompt goes first."""
        self.queue.insert(0 if self.paused else len(self.queue), text)
        self.resume()

    def resume(self) -> None:
        self.paused = False
        self._next()

    def edit(self, message: Node, text: str) -> None:
        self._ask(self.session.say(text, instead_of=message))

    def regenerate(self) -> None:
        if self.answers and (question := self.answers[-1].parent):
            self._ask(question)

    def stop(self) -> None:
        if self.running and not self.stopping:
            self.stopping = True
            self._client.send(Stop())

    def use(self, method: str, draft_tokens: int | None) -> None:
        self.method, self.draft_tokens = method, draft_tokens
        if self.running:
            self._client.send(Use(method, draft_tokens))

    def say(self, text: str, hint: str = "", *, error: bool = False) -> None:
        """Put a note in the transcript."""
        self.notes.append(Note(len(self.notes), self.session.tip, text, hint, error))

    # What the engine does

    def fold(self, event: Event) -> None:
        match event:
            case Loading():
                self.engine = event
            case Ready():
                self._ready(event)
            case Notice():
                self._say_once(event.text)
            case Died():
                self._died(event)
            case Failed():
                self._failed(event)
            case Prefill() | Emitted() | Finished() if self.running and event.turn == self.running.id:
                self._grow(self.running, event)

    def _grow(self, node: Node, event: Prefill | Emitted | Finished) -> None:
        answer = node.answer
        assert answer is not None, "only answers run"
        match event:
            case Prefill():
                self.reading = event
                answer.prompt_tokens, answer.reused_tokens = event.total, event.reused
            case Emitted():
                answer.extend(event.rounds, event.pieces)
                self.why = event.why
                self.plain += fold(made for made in event.rounds if not made.drafted)
            case Finished():
                answer.end(event)
                self.environment = event.environment
                self._finished(node, answer)

    def _finished(self, node: Node, answer: Answer) -> None:
        self._rest()
        if answer.finish is Finish.CANCELLED and not answer.pieces:
            self._take_back(node)
        elif answer.finish is Finish.CONTEXT:
            _, room = self.context or (0, 0)
            self.say(
                f"The context is full: {room:,} tokens.",
                "Edit an earlier message (↑ in the empty prompt), or start again with a larger --n-ctx.",
            )
        self._next()

    def _ready(self, event: Ready) -> None:
        self.engine, self.environment, self.paused = event, event.environment, False
        if self.method not in event.methods and self.method != OFF:
            reason = event.target.speculation_off or f"{self.method!r} does not work with this model."
            self._say_once(reason)
            self.method = OFF
        self._next()

    def _died(self, event: Died) -> None:
        self.engine = event
        self._break_off(event.how)
        self.say(f"The engine stopped: {event.how}.", "The conversation is safe. F8 reloads the model.", error=True)

    def _failed(self, event: Failed) -> None:
        if self.running and event.turn == self.running.id:
            self._break_off(event.message)
        elif isinstance(self.engine, Loading):
            self.engine = event
            self.paused = True
            self.say(event.message, f"{event.hint} F8 tries again.".strip(), error=True)
            return
        self.say(event.message, event.hint, error=True)

    def _break_off(self, why: str) -> None:
        """The running answer ends without the engine's word: what there is of it is kept."""
        node, self.paused = self.running, True
        self._rest()
        if node and node.answer:
            node.answer.error = why
            if not node.answer.pieces:
                self._take_back(node)

    def _take_back(self, node: Node) -> None:
        """An answer without a word leaves the tree; so does its question, if that has no other answer."""
        question = node.parent
        assert question is not None and question.message is not None, "answers follow questions"
        self._forget(node, question)
        if not question.children:
            former = self._forget(question, question.parent or self.session.root)
            self._returned.append(Returned(question.message.text, former))

    def _forget(self, node: Node, heir: Node) -> Node | None:
        self.notes = [replace(note, after=heir) if note.after is node else note for note in self.notes]
        return self.session.remove(node)

    def _rest(self) -> None:
        self.running, self.reading, self.stopping = None, None, False

    def _next(self) -> None:
        if self.queue and not self.running and not self.paused and isinstance(self.engine, Ready):
            self._ask(self.session.say(self.queue.pop(0)))

    def _ask(self, question: Node) -> None:
        asked = Asked(self.options.sampling, self.draft_tokens, self.options.verifier)
        self.running = node = self.session.answer(question, Answer(self.method), asked)
        self._client.send(
            Generate(
                turn=node.id,
                messages=self.session.messages(until=question),
                sampling=asked.sampling,
                method=self.method,
                draft_tokens=asked.draft_tokens,
                verifier=asked.verifier,
                lookup=self.options.lookup,
                max_tokens=self.options.max_tokens,
                stop=self.options.stop,
            )
        )

    def _say_once(self, text: str) -> None:
        if all(note.text != text for note in self.notes):
            self.say(text)
