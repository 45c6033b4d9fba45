"""Token ids become text: never half a character, never half a stop string, one text per token.

Pieces are bytes, and a character may be spread over several tokens, so the bytes of one answer go through one
incremental decoder. Knows nothing of models; it is handed the piece table.
"""

from __future__ import annotations

import codecs
from collections.abc import Container, Sequence

from localspec.errors import UsageError
from localspec.spec.types import Finish, Token


class Detokenizer:
    """The text of one answer. Bytes that are no UTF-8 become replacement characters; none are dropped."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: Token) -> str:
        """The text that `token` completes; empty while a character is still unfinished."""
        return self._decoder.decode(self._pieces[token])

    def flush(self) -> str:
        """What an answer that was cut inside a character still owes."""
        return self._decoder.decode(b"", final=True)


class StopScanner:
    """Passes text on until a stop string is complete; holds back what may be the beginning of one.

    The stop string that ends first wins, and of those that end together the longest: so the result does not
    depend on how the text was cut into tokens.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise UsageError("A stop string is empty.", "An empty text stands everywhere: leave it out.")
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.hit = False

    def feed(self, text: str) -> str:
        """The text that is safe to show; empty for good once a stop string was found."""
        if self.hit:
            return ""
        text = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            self.hit, self._held = True, ""
            return text[: min(found)[1]]
        safe = len(text) - self._open(text)
        self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """What was held back and turned out to be plain text."""
        text, self._held = self._held, ""
        return text

    def _open(self, text: str) -> int:
        """The length of the longest end of `text` that begins a stop string."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0


class TextStream:
    """What the decoder asks after each token: is this the end? Collects the text on the way, one per token."""

    def __init__(self, pieces: Sequence[bytes], stops: Sequence[str], eog: Container[Token]) -> None:
        self.pieces = pieces
        self._detokenizer = Detokenizer(pieces)
        self._scanner = StopScanner(stops)
        self._eog = eog
        self._texts: list[str] = []

    def __call__(self, token: Token) -> Finish | None:
        if token in self._eog:
            self._texts.append("")
            return Finish.STOP
        self._texts.append(self._scanner.feed(self._detokenizer.feed(token)))
        return Finish.STOP_STRING if self._scanner.hit else None

    def take(self) -> tuple[str, ...]:
        """The texts of the tokens since the last take. Text held back comes with a later token, or by `flush`."""
        texts, self._texts = tuple(self._texts), []
        return texts

    def flush(self) -> str:
        """At the end of an answer: the rest, which belongs to its last token."""
        return self._scanner.feed(self._detokenizer.flush()) + self._scanner.flush()
