"""The tokens of an answer laid out in lines of a given width. Knows cells and tokens, no widget and no colour.

Text is only ever added at the end, so a running answer costs what is new in it. Lines break after blanks where they
can. Every token can be seen: a line feed has its mark, and a token without text has one too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby

from rich.cells import cell_len, split_graphemes

from localspec.chat.message import Piece
from localspec.chat.text import visible
from localspec.chat.token_text import NEWLINE, NO_TEXT, OWN

TAB = "⇥   "
JOINER = "\N{ZERO WIDTH JOINER}"


class Mark(Enum):
    """How a cell is drawn. EVEN and ODD are accepted draft tokens: two shades, so that neighbours part."""

    EVEN = "even"
    ODD = "odd"
    OWN = "own"
    PLAIN = "plain"
    GHOST = "ghost"
    LETTER = "letter"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str  # one character as people see it
    width: int
    token: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class Run:
    """Cells beside each other that look the same and belong to one token."""

    text: str
    width: int
    token: int
    mark: Mark


class TokenLines:
    def __init__(self, width: int) -> None:
        self.width = max(width, 4)
        self._closed: list[tuple[Cell, ...]] = []
        self._line_of: dict[int, int] = {}  # where the own text of a token begins, of those on closed lines
        self._open: list[Cell] = []
        self._used = 0

    def __len__(self) -> int:
        return len(self._closed) + 1

    def add(self, token: int, piece: Piece, mark: Mark, letter: str = "") -> None:
        """The next token: its letter, what was rejected in its favour, and its text."""
        self._put_text(letter, token, Mark.LETTER)
        self._put_text(piece.ghost, token, Mark.GHOST)
        self._put_text(piece.text or NO_TEXT, token, mark)

    def runs(self, line: int) -> Iterator[Run]:
        for (token, mark), cells in groupby(self._cells(line), key=lambda cell: (cell.token, cell.mark)):
            group = list(cells)
            yield Run("".join(c.text for c in group), sum(c.width for c in group), token, mark)

    def token_at(self, x: int, line: int) -> int | None:
        """The token under a cell; past the end of a line, its last one."""
        cells = self._cells(line)
        for cell in cells:
            if x < cell.width:
                return cell.token
            x -= cell.width
        return cells[-1].token if cells else None

    def place_of(self, token: int) -> tuple[int, int]:
        """(x, line) of the beginning of a token's own text."""
        line = self._line_of.get(token, len(self._closed))
        x = 0
        for cell in self._cells(line):
            if cell.token == token and cell.mark not in (Mark.GHOST, Mark.LETTER):
                break
            x += cell.width
        return x, line

    def _cells(self, line: int) -> tuple[Cell, ...] | list[Cell]:
        if line < len(self._closed):
            return self._closed[line]
        return self._open if line == len(self._closed) else ()

    def _put_text(self, text: str, token: int, mark: Mark) -> None:
        first, *others = visible(text).replace("\t", TAB).split("\n")
        self._put_line(first, token, mark)
        for line in others:
            self._put(Cell(NEWLINE, 1, token, mark))
            if mark is not Mark.GHOST:
                self._close(len(self._open))
            self._put_line(line, token, mark)

    def _put_line(self, text: str, token: int, mark: Mark) -> None:
        for start, end, width in split_graphemes(text)[0]:
            self._put(Cell(text[start:end], width, token, mark))

    def _put(self, cell: Cell) -> None:
        last = self._open[-1] if self._open else None
        if last and (
            not cell.width or (cell.width == 2 and last.text.endswith(JOINER))
        ):  # it is drawn over what stands before it
            text = last.text + cell.text
            self._open[-1] = grown = replace(last, text=text, width=cell_len(text))
            self._used += grown.width - last.width
            return
        blank = cell.text in (" ", NEWLINE)  # the last column is kept for one
        while self._open and self._used + cell.width > self.width - (not blank):
            self._close(self._break())
        self._open.append(cell)
        self._used += cell.width

    def _break(self) -> int:
        """Where the open line ends: after its last blank, else where it is full."""
        for at in range(len(self._open), 0, -1):
            if self._open[at - 1].text == " ":
                return at
        return len(self._open)

    def _close(self, end: int) -> None:
        for cell in self._open[:end]:
            if cell.mark not in (Mark.GHOST, Mark.LETTER):
                self._line_of.setdefault(cell.token, len(self._closed))
        self._closed.append(tuple(self._open[:end]))
        self._open = self._open[end:]
        self._used = sum(cell.width for cell in self._open)


def mark_of(piece: Piece, position: int) -> Mark:
    """`position` is the token's place in its round."""
    if piece.provenance in OWN:
        return Mark.OWN
    if piece.provenance == "plain":
        return Mark.PLAIN
    return Mark.ODD if position % 2 else Mark.EVEN
