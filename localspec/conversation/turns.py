"""Turns of one session: a fold over engine events and over what the user asks for. Knows no widget and no clock."""

from __future__ import annotations

from itertools import count

from localspec.chat.answer import Answer
from localspec.chat.keeper import Keeper
from localspec.chat.room import Full, oldest
from localspec.chat.session import Asked, Node
from localspec.conversation.alternatives import asked_for, forget_oldest
from localspec.conversation.data import OFF, Options
from localspec.conversation.kept import Kept
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
from localspec.errors import LocalspecError
from localspec.spec.stats import Stats, fold
from localspec.spec.types import Finish


class Turns(Kept):
    """`full` is set when the context is full and the user has the choice (chat/room.py)."""

    def __init__(
        self, client: EngineClient, load: Load | None, options: Options, keeper: Keeper | None = None
    ) -> None:
        """Without `load` the user has not chosen a model yet, and `engine` is None."""
        super().__init__(options, keeper)
        self.method = options.method
        self.draft_tokens = options.draft_tokens
        self.engine: Loading | Ready | Failed | Died | None = Loading(0.0) if load else None
        self.environment: Environment | None = None
        self.stopping = False
        self.reading: Prefill | None = None
        self.paused = False
        self.why = ""  # the last choice of an automatic method, and its reason
        self.full: Full | None = None
        self.plain = Stats()  # over all rounds in which nothing was drafted: what speculation is compared with
        self._client = client
        self._load = load
        self._turns = count(1)  # numbers of their own: two sessions may both have a node 2
        self._turn = 0

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

    def opened(self, node: Node) -> bool:
        """Did the prompt open a thinking block for this answer? Another model's may not have."""
        own = node.asked is None or node.asked.model in ("", self.options.title)
        return isinstance(self.engine, Ready) and self.engine.thinks and own

    @property
    def context(self) -> tuple[int, int] | None:
        """(tokens used, tokens that fit), once a model is loaded."""
        if not isinstance(self.engine, Ready) or not self.engine.target.n_ctx:  # some servers don't say
            return None
        answer = self.shown
        used = answer.prompt_tokens + len(answer.token_ids) if answer else 0
        return used, self.engine.target.n_ctx

    # What the user does

    def start(self) -> None:
        """Load the model; again, after it could not be loaded or the engine died."""
        if self._load is None:
            raise LocalspecError("No model is chosen yet.", "F2 shows those that there are.")
        if self.running:
            self._break_off("the model was reloaded")
        self.engine = Loading(0.0)
        self._client.start()
        self._client.send(self._load)

    def submit(self, text: str) -> None:
        """Ask now, or queue behind what is running. After a failure the new prompt goes first."""
        self.queue.insert(0 if self.paused else len(self.queue), text)
        self._unsent.clear()
        self.resume()
        self._save()

    def resume(self) -> None:
        self.paused = False
        self._next()

    def edit(self, message: Node, text: str) -> None:
        self._unsent.clear()
        self._ask(self.session.say(text, instead_of=message))

    def regenerate(self) -> None:
        """Answer the last question again, or for the first time where the program ended before that."""
        questions = [node for node in self.session.path if node.message]
        if questions:
            self._ask(questions[-1])

    def continue_answer(self) -> None:
        """Go on with an answer that was stopped, or that met a limit or a failure, where it ends."""
        self._require_rest()
        node = self.session.tip
        answer, asked = node.answer, node.asked
        if answer is None or asked is None or answer.finish in (Finish.STOP, Finish.STOP_STRING):
            raise LocalspecError("There is no stopped answer to continue.", "Ask for another one with Ctrl+R.")
        if asked.model not in ("", self.options.title):
            raise LocalspecError(
                f"Another model began this answer: {asked.model}.", "Ask for another one with Ctrl+R."
            )
        if not self.methods:
            raise LocalspecError("No model is loaded.", "F8 loads it again.")
        self._run(node, asked, resume=answer.resume())

    def drop_oldest(self) -> None:
        """Where the context is full: leave out the oldest turns, and go on with the answer that had no room."""
        full, self.full = self.full, None
        if full is None or not full.oldest:
            raise LocalspecError("There is nothing to leave out.", "Begin a new session, or shorten the message.")
        self.session.dropped |= {node.id for node in full.oldest}
        turns = sum(1 for node in full.oldest if node.message)
        self.say(f"The model no longer reads the first {turns} messages and their answers. They stay here.")
        self._save()
        if self.shown and self.shown.finish is Finish.CONTEXT:
            self.continue_answer()

    def stop(self) -> None:
        if self.running and not self.stopping:
            self.stopping = True
            self._client.send(Stop())

    def use(self, method: str, draft_tokens: int | None) -> None:
        self.method, self.draft_tokens = method, draft_tokens
        if self.running:
            self._client.send(Use(method, draft_tokens))

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
            case Prefill() | Emitted() | Finished() if self.running and event.turn == self._turn:
                self._grow(self.running, event)

    def _grow(self, node: Node, event: Prefill | Emitted | Finished) -> None:
        answer = node.answer
        assert answer is not None, "only answers run"
        match event:
            case Prefill():
                self.reading = event
                answer.read(event.total, event.reused)
            case Emitted():
                answer.extend(event.rounds, event.pieces, event.names)
                self.keeper.changed(self.session, node)
                self.keep()
                self.why = event.why
                self.plain += fold(made for made in event.rounds if not made.drafted)
            case Finished():
                answer.end(event)
                self.environment = event.environment
                self._finished(node, answer)

    def _finished(self, node: Node, answer: Answer) -> None:
        self._rest()
        self.keeper.changed(self.session, node)
        if answer.finish is Finish.CANCELLED and not answer.pieces:
            self._take_back(node)
        elif answer.finish is Finish.CONTEXT:
            used, room = self.context or (0, 0)
            self.full = Full(used, room, oldest(self.session, used, room, answered=True))
            ways = "Leave out the oldest messages, begin" if self.full.oldest else "Begin"
            self.say(
                f"The context is full: {room:,} tokens.",
                f"{ways} a new session, edit an earlier message (↑ in the empty prompt), or start again with a "
                "larger --n-ctx.",
            )
            self.paused = bool(self.queue)  # the next one would find it as full
        self._save()
        self._next()

    def _ready(self, event: Ready) -> None:
        self.engine, self.environment, self.paused = event, event.environment, False
        if self.method not in event.methods and self.method != OFF:
            reason = event.target.speculation_off or f"{self.method!r} does not work with this model."
            self._say_once(reason)
            self.method = OFF
        self._next()

    def _died(self, event: Died) -> None:
        loading, self.engine = isinstance(self.engine, Loading), event
        self._break_off(event.how)
        if loading:
            file = self._load.target.path if self._load else self.options.title
            message = f"Cannot load {file}: llama.cpp did not survive it: {event.how}."
            self.say(message, "The file may be damaged: `localspec inspect FILE`. F8 tries again.", error=True)
            return
        self.say(f"The engine stopped: {event.how}.", "The conversation is safe. F8 reloads the model.", error=True)

    def _failed(self, event: Failed) -> None:
        if self.running and event.turn == self._turn:
            self._break_off(event.message)
            if event.too_long and self.context:
                used, room = event.too_long, self.context[1]
                self.full = Full(used, room, oldest(self.session, used, room, answered=False))
        elif isinstance(self.engine, Loading):
            self.engine = event
            self.paused = True
            self.say(event.message, f"{event.hint} F8 tries again, F2 chooses another model.".strip(), error=True)
            return
        self.say(event.message, event.hint, error=True)

    def _break_off(self, why: str) -> None:
        """The running answer ends without the engine's word: what there is of it is kept."""
        node, self.paused = self.running, True
        self._rest()
        if node and node.answer:
            node.answer.error = why
            self.keeper.changed(self.session, node)
            if not node.answer.pieces:
                self._take_back(node)
        self._save()

    def _take_back(self, node: Node) -> None:
        """An answer without a word leaves the tree; so does its question, if that has no other answer."""
        question = node.parent
        assert question is not None and question.message is not None, "answers follow questions"
        self._forget(node, question)
        if not question.children:
            former = self._forget(question, question.parent or self.session.root)
            self._give_back(question.message.text, former)

    def _rest(self) -> None:
        self.running, self.reading, self.stopping = None, None, False

    def _next(self) -> None:
        if self.queue and not self.running and not self.paused and isinstance(self.engine, Ready):
            self._ask(self.session.say(self.queue.pop(0)))

    def _ask(self, question: Node) -> None:
        asked = Asked(self.options.sampling, self.draft_tokens, self.options.verifier, self.options.title)
        node = self.session.answer(question, Answer(self.method), asked)
        self.session.model = self.options.title
        self._run(node, asked)

    def _run(self, node: Node, asked: Asked, *, resume: tuple[int, ...] = ()) -> None:
        """Saved first, asked then: what was sent is never only in the air."""
        question = node.parent
        assert question is not None, "answers follow questions"
        self.running, self.full, self._turn = node, None, next(self._turns)
        forget_oldest(each.answer for each in self.session.answers() if each.answer)
        self.keeper.changed(self.session, *(each for each in (question.parent, question, node) if each))
        self._save()
        self._client.send(
            Generate(
                turn=self._turn,
                messages=self.session.messages(until=question),
                sampling=asked.sampling,
                method=self.method,
                draft_tokens=self.draft_tokens,
                verifier=asked.verifier,
                lookup=self.options.lookup,
                max_tokens=self.options.max_tokens,
                stop=self.options.stop,
                resume=resume,
                logprobs=asked_for(self.options.alternatives, self.watched, self.engine),
            )
        )
