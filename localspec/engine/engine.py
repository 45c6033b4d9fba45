"""The engine: owns the models, handles one command at a time, and reports by events.

Single-threaded, in-process; process.py puts it behind a pipe. Turns every LocalspecError into Failed and lives on.
Knows nothing of who listens.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from time import perf_counter

from localspec.chat.detok import TextStream
from localspec.chat.message import Piece
from localspec.engine.inbox import Inbox
from localspec.engine.loaded import Loaded
from localspec.engine.messages import (
    Command,
    Emitted,
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
    Unload,
    Use,
)
from localspec.engine.naming import Names
from localspec.engine.outbox import Outbox
from localspec.errors import LocalspecError, PromptTooLong
from localspec.spec.types import Finish, Round

log = logging.getLogger(__name__)


class Engine:
    """`emit` receives every event, in order, on the thread that calls `handle`."""

    def __init__(self, emit: Callable[[Event], None], inbox: Inbox | None = None) -> None:
        self.inbox = inbox or Inbox()
        self._emit = emit
        self._loaded: Loaded | None = None
        self._told: set[str] = set()

    def handle(self, command: Command) -> None:
        turn = command.turn if isinstance(command, Generate) else None
        try:
            self._dispatch(command)
        except LocalspecError as error:
            lines = tuple(getattr(error, "lines", ()))
            too_long = error.tokens if isinstance(error, PromptTooLong) else 0
            self._emit(Failed(error.message, error.hint, error.exit_code, turn, lines, too_long))
        except BrokenPipeError:  # nobody listens any more: a matter for the owner, who ends
            raise
        except Exception as error:
            log.exception("bug while handling %s", type(command).__name__)
            self._emit(Failed(f"Internal error: {error!r}", "This is a bug; the log has the details.", 1, turn))

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None

    @property
    def loaded(self) -> Loaded | None:
        """What is loaded, for those who measure it from inside."""
        return self._loaded

    def _dispatch(self, command: Command) -> None:
        match command:
            case Load():
                self._load(command)
            case Generate():
                self._generate(command)
            case Unload():
                self.close()
            case Use() | Stop():
                pass  # nothing is running: the next Generate names its own method

    def _load(self, command: Load) -> None:
        self.close()
        self._told.clear()

        def progress(role: str, fraction: float) -> bool:
            self._emit(Loading(fraction, role))
            return not self.inbox.interrupted()

        self._loaded = loaded = Loaded.load(command, progress)
        drafting, draft = loaded.drafting, loaded.draft.info if loaded.draft else None
        reasons = tuple(drafting.reasons.items())
        self._emit(Ready(loaded.info, draft, drafting.methods, reasons, loaded.environment, loaded.thinks))
        for reason in filter(
            None, (*loaded.problems, drafting.left_out, loaded.info.speculation_off, loaded.notice)
        ):
            self._notice(reason, None)

    def _generate(self, command: Generate) -> None:
        started = perf_counter()
        loaded = self._require()
        prompt, constraint = loaded.prompt(command), loaded.constraint(command)
        loaded.drafting.look_up(command.lookup)
        for notice in (*prompt.notices, *loaded.choose(command.method, command.draft_tokens, command.verifier)):
            self._notice(notice, command.turn)
        seed = command.sampling.seed if command.sampling.seed is not None else secrets.randbits(31)
        reused, stopped = self._prefill(loaded, command.turn, prompt.ids)
        read = perf_counter()
        text = TextStream(loaded.written, (*command.stop, *prompt.stops), loaded.eog)
        names = Names(loaded.target.vocab.name)

        def send(rounds: tuple[Round, ...], pieces: tuple[Piece, ...]) -> None:
            self._emit(Emitted(command.turn, rounds, pieces, loaded.why, names.fresh(rounds)))

        outbox = Outbox(send, text, command.resume)
        reason = Finish.CANCELLED
        if not stopped:
            rounds = loaded.decoder.generate(
                prompt.ids,
                command.sampling,
                seed,
                outbox.ending,
                command.max_tokens,
                command.logprobs,
                constraint,
            )
            reason = self._decode(loaded, command.turn, rounds, outbox)
        tail = outbox.close()
        ended = perf_counter()
        self._emit(
            Finished(
                turn=command.turn,
                reason=reason,
                seed=seed,
                prompt_tokens=len(prompt.ids),
                reused_tokens=reused,
                prefill_s=read - started,
                ttft_s=outbox.first_at - started if outbox.first_at is not None else None,
                decode_s=ended - read,
                total_s=ended - started,
                environment=loaded.environment,
                tail=tail,
                advice=loaded.drafting.advice,
            )
        )
        loaded.keep_costs()
        if loaded.earlier is not None and command.messages and command.remember:  # after the answer is out
            loaded.earlier.remember(outbox.tokens)

    def _require(self) -> Loaded:
        if self._loaded is None:
            raise LocalspecError("No model is loaded.", "Load one first.")
        return self._loaded

    def _prefill(self, loaded: Loaded, turn: int, prompt: list[int]) -> tuple[int, bool]:
        """Read the prompt; returns (tokens reused, whether it was stopped)."""
        stopped = False

        def check() -> bool:
            nonlocal stopped
            self._switch(loaded, turn)
            stopped = stopped or self.inbox.interrupted()
            return stopped

        common = loaded.common(prompt)
        could = loaded.target.reusable(common)
        total = len(prompt) - 1
        self._emit(Prefill(turn, could, total, could))
        reused = loaded.decoder.prefill(
            prompt, lambda done, all: self._emit(Prefill(turn, done, all, could)), check
        )
        if reused < common:
            self._notice(
                f"This model's cache can't be cut everywhere: {common - reused:,} of the {common:,} tokens that this "
                "turn shares with the last one were read again.",
                turn,
            )
        return reused, stopped or check()

    def _decode(self, loaded: Loaded, turn: int, rounds: Iterator[Round], outbox: Outbox) -> Finish:
        for done in rounds:
            outbox.add(done)
            for problem in (*loaded.failing, *loaded.drafting.notices):
                self._notice(problem, turn)
            if loaded.decoder.reread:
                self._notice("The model's cache was lost and the text read again in the middle of an answer.", turn)
            if done.finish is not None:
                return done.finish
            self._switch(loaded, turn)
            if self.inbox.interrupted():
                break
        return Finish.CANCELLED

    def _switch(self, loaded: Loaded, turn: int) -> None:
        while use := self.inbox.switch():
            try:
                notices = loaded.choose(use.method, use.draft_tokens)
            except LocalspecError as error:
                notices = [f"{error.message} {error.hint}"]
            for notice in notices:
                self._notice(notice, turn)

    def _notice(self, text: str, turn: int | None) -> None:
        """Say it once per loaded model; the tenth repetition of a warning helps nobody."""
        if text not in self._told:
            self._told.add(text)
            self._emit(Notice(text, turn))
